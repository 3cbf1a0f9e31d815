// What the device's parts share: its switches and counters, its limits, memory, kernels, and where a failure is put.
#pragma once
#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <string>

struct uint3 { unsigned x, y, z; };
struct dim3 { unsigned x, y, z; };

// Python sees it through ctypes, as `State` in build.py: the same fields in the same order.
struct hc_State {
  int64_t order;              // of threads, warps and blocks: one of Order
  int64_t seed, turn;         // of what is shuffled; kernels since it was set
  int64_t shuffled_sums;      // 1: transposed sparse products add in another order each time
  int64_t traced;             // 1: a copy to the host prints the Python stack
  int64_t memory, allocated;  // bytes that can be had, and that were
  int64_t kernels, products, libraries, to_host, to_device, waits;
};
extern "C" hc_State hc_state;

namespace hostcuda {

enum Order { in_order, reversed, shuffled };

// CUDA's errors, which the driver and the runtime share.
#define HC_ERRORS(_) \
  _(SUCCESS, 0) _(INVALID_VALUE, 1) _(OUT_OF_MEMORY, 2) _(INVALID_IMAGE, 200) _(NOT_FOUND, 500) \
  _(ILLEGAL_ADDRESS, 700) _(LAUNCH_FAILED, 719) _(COOPERATIVE_LAUNCH_TOO_LARGE, 720)
#define HC_ERROR(NAME, NUMBER) NAME = NUMBER,
enum Error { HC_ERRORS(HC_ERROR) };

// The limits of the device that is imitated, an H100 (compute capability 9.0).
constexpr unsigned WARP = 32, MULTIPROCESSORS = 132, THREADS_PER_BLOCK = 1024, THREADS_PER_MULTIPROCESSOR = 2048;
constexpr unsigned BLOCKS_PER_MULTIPROCESSOR = 32, SHARED_PER_BLOCK = 227 << 10, SHARED_PER_MULTIPROCESSOR = 228 << 10;
constexpr unsigned SHARED_WITHOUT_ASKING = 48 << 10;

// What the error string of the driver says after this error; printf's arguments.
Error fail(Error error, const char* format, ...) __attribute__((format(printf, 2, 3)));
const char* last_message();

// Fresh memory is NaN, of either precision; null where there is no more.
constexpr char POISON = char(0xff);
void* allocate(size_t size);
// Whether there was such an allocation.
bool release(void* pointer);
// Looks at the bytes next to every allocation that no page guards.
Error overrun();
// Which allocation an address belongs to or lies next to, in words.
std::string described(const void* address);

// From here to unwatch_faults a fault jumps back to `if (sigsetjmp(watch_faults(), 1))`.
sigjmp_buf& watch_faults();
void unwatch_faults();
const void* fault_address();

struct Kernel {
  const char* name;
  void (*call)(void** arguments);
  bool fibers;                      // it has barriers, atomics or shared memory: its threads take turns
  bool flush;                       // float32 alone: subnormal numbers are 0, as with -ftz=true
  char *shared_begin, *shared_end;  // its static shared memory, that of the running block
  int64_t dynamic_limit;            // bytes of dynamic shared memory that it may have

  size_t static_shared() const { return size_t(shared_end - shared_begin); }
};

struct Launch {
  Kernel& kernel;
  dim3 grid, block;
  unsigned dynamic_shared;
  void** arguments;
  bool cooperative;

  unsigned threads() const { return block.x * block.y * block.z; }
  uint64_t blocks() const { return uint64_t(grid.x) * grid.y * grid.z; }
  size_t shared() const { return kernel.static_shared() + dynamic_shared; }
};

// How many such blocks a multiprocessor holds, by its threads and its shared memory (registers are not known here).
unsigned blocks_per_multiprocessor(unsigned threads, size_t shared);
// Runs a kernel, every thread of it, on this thread of the host.
Error run(const Launch& launch);

}  // namespace hostcuda
