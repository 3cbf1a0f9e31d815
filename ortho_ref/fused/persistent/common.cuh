// What the persistent kernels share; launch.py puts REAL, float or double, and this file before a cell's.
//
// A block takes some of the n units of some rows of the batch, at every step.  A thread finishes one unit of one row:
// what this alone needs stays in its registers.  The products are made by all threads of the block together, from a copy
// v of what they read, in shared memory, and from weights that lie there too where they fit, else come through L2.
//     spread = 0   a block has all units of its rows: nothing crosses blocks
//     spread = 1   units are spread over the blocks: what the products read goes through L2, and a barrier of the grid
//                  stands between writing and reading.  All blocks have to be on the device at once.
//
// sigma(a) = 1 / (1 + exp(-a))  [bp:sigmoid]      Phi:  tanh [bp:tanh]   relu [bp:relu]   modrelu [ncgru:20]

#include <cooperative_groups.h>

// plan.py chooses them.  rows: of the batch, at a time, in a block; a multiple of tile, which is 1 or 4.  partial: numbers
// of shared memory for the parts of sums.  own: whether a block's weights lie in shared memory.
struct Sizes {
  int T, B, n, rows, units, tile, partial, own, spread;
};

enum { TANH, RELU, MODRELU };

__device__ REAL sigmoid(REAL a) {
  return 1 / (exp(-a) + 1);  // [bp:sigmoid]
}

// Phi(a, b); b is in a already, but for modrelu.  A NaN goes on.
__device__ REAL value(int activation, REAL a, REAL b) {
  if (activation == TANH) return tanh(a);                      // [bp:tanh]
  if (activation == RELU) return a > 0 || isnan(a) ? a : REAL(0);  // [bp:relu]
  REAL m = fabs(a) + b;
  m = m > 0 || isnan(m) ? m : REAL(0);
  return a > 0 ? m : a < 0 ? -m : isnan(a) ? a : REAL(0);      // [ncgru:20]
}

// n as a multiple of four: so many numbers the sums run over, those above n being 0
__device__ int padded(int n) { return (n + 3) / 4 * 4; }

__device__ int first_unit(const Sizes& z) { return z.spread ? blockIdx.x * z.units : 0; }

// The rows that a block begins with, and how far off its next are.
__device__ int first_row(const Sizes& z) { return z.spread ? 0 : blockIdx.x * z.rows; }
__device__ int to_next_rows(const Sizes& z) { return z.spread ? z.rows : gridDim.x * z.rows; }

// What a thread finishes.
struct Own {
  int row, local, unit;  // of the block's rows; of the block's units; of all
  bool there;
  long long at;          // in a (B, n) array
};
__device__ Own own_of(int first, const Sizes& z) {
  int row = threadIdx.x / z.units, local = threadIdx.x % z.units, unit = first_unit(z) + local;
  bool there = row < z.rows && first + row < z.B && unit < z.n;
  return {row, local, unit, there, (long long)(first + row) * z.n + unit};
}

// v (rows, slots, padded n), shared: 0 throughout
__device__ void clear(REAL* v, int slots, const Sizes& z) {
  for (int i = threadIdx.x; i < z.rows * slots * padded(z.n); i += blockDim.x) v[i] = 0;
}

// One slot of v from x (B, n), which other blocks may have written
__device__ void gather(REAL* v, int slots, int slot, const REAL* x, int first, const Sizes& z) {
  int depth = padded(z.n);
  for (int i = threadIdx.x; i < z.rows * depth; i += blockDim.x) {
    int row = i / depth, j = i % depth;
    bool there = first + row < z.B && j < z.n;
    v[(row * slots + slot) * depth + j] = there ? __ldcg(x + (long long)(first + row) * z.n + j) : REAL(0);
  }
}

// What every thread of the grid has written is there for all of them.
__device__ void across_blocks() {
  __threadfence();
  cooperative_groups::this_grid().sync();
}

// One factor of a product, (depth, gates units) of the block's units: its own copy, or within W.
struct Factor {
  const REAL* at;
  int gates, depth, stride, slices;
  bool own;
};

// Where the o-th of a block's outputs, gate by gate, has its column in W
__device__ int column(int o, const Sizes& z) { return o / z.units * z.n + min(first_unit(z) + o % z.units, z.n - 1); }

// W (slots padded n, gates n); memory: where a copy goes, moved on behind it
__device__ Factor factor(const REAL* W, int slots, int gates, REAL** memory, const Sizes& z) {
  int depth = slots * padded(z.n), outputs = gates * z.units;
  int slices = max(1, min((int)blockDim.x / (outputs * (z.rows / z.tile)), depth / 4));
  if (!z.own) return {W, gates, depth, gates * z.n, slices, false};
  REAL* copy = *memory;
  *memory += depth * outputs;
  for (int i = threadIdx.x; i < depth * outputs; i += blockDim.x) {
    copy[i] = W[(long long)(i / outputs) * gates * z.n + column(i % outputs, z)];
  }
  return {copy, gates, depth, outputs, slices, true};
}

struct alignas(16) Four {
  REAL of[4];
};

// part (slices, rows, gates units): v times U, the sum in slices.  A thread has one output of ROWS rows, in one slice.
// v: the first of the slots that are summed over; width: of a row of v.
template <int ROWS>
__device__ void products_of(const Factor& U, const REAL* v, int width, REAL* part, const Sizes& z) {
  int outputs = U.gates * z.units, tiles = z.rows / ROWS, fours = U.depth / 4;
  for (int item = threadIdx.x; item < outputs * tiles * U.slices; item += blockDim.x) {
    int o = item % outputs, row = item / outputs % tiles * ROWS, slice = item / (outputs * tiles);
    const REAL* u = U.at + (U.own ? o : column(o, z));
    REAL sum[ROWS];
    for (int i = 0; i < ROWS; ++i) sum[i] = 0;
    int j = 4 * (fours * slice / U.slices), end = 4 * (fours * (slice + 1) / U.slices);
    u += (long long)j * U.stride;
#pragma unroll 1
    for (; j < end; j += 4, u += 4 * U.stride) {
      REAL u0 = u[0], u1 = u[U.stride], u2 = u[2 * U.stride], u3 = u[3 * U.stride];
      for (int i = 0; i < ROWS; ++i) {
        Four x = *reinterpret_cast<const Four*>(v + (row + i) * width + j);
        sum[i] += u0 * x.of[0] + u1 * x.of[1] + u2 * x.of[2] + u3 * x.of[3];
      }
    }
    for (int i = 0; i < ROWS; ++i) part[(slice * z.rows + row + i) * outputs + o] = sum[i];
  }
}
__device__ void products(const Factor& U, const REAL* v, int width, REAL* part, const Sizes& z) {
  if (z.tile == 1) products_of<1>(U, v, width, part, z);
  else products_of<4>(U, v, width, part, z);
}

// An entry of a product, of the thread's own row: of a gate, and of one of the block's units
__device__ REAL total_of(const REAL* part, const Factor& U, int gate, int local, const Own& own, const Sizes& z) {
  int outputs = U.gates * z.units;
  REAL sum = 0;
  for (int slice = 0; slice < U.slices; ++slice) {
    sum += part[(slice * z.rows + own.row) * outputs + gate * z.units + local];
  }
  return sum;
}
// ... of the thread's own unit
__device__ REAL total(const REAL* part, const Factor& U, int gate, const Own& own, const Sizes& z) {
  return total_of(part, U, gate, own.local, own, z);
}
