// The two loops over time of fused/elman_complex.py, a launch each, quick on a GPU; held to them by test_persistent.
//
// A complex vector is its real and imaginary parts in turn, n here twice that of the cell, and U the real matrix of the
// same map.  A thread finishes one part; the two of a unit are in one block and compute it both.

struct Complex {
  REAL re, im;
};

// Of the pair that the thread's own number is one of: in an array, and in a product
__device__ Complex pair(const REAL* x, long long at, const Own& own) {
  return {x[at - own.unit % 2], x[at - own.unit % 2 + 1]};
}
__device__ Complex total_pair(const REAL* part, const Factor& U, const Own& own, const Sizes& z) {
  int re = own.local - own.local % 2;
  return {total_of(part, U, 0, re, own, z), total_of(part, U, 0, re + 1, own, z)};
}

// U (padded n, n): of the weight's transpose.  P (T, B, n): W x in, z out.  h (T+1, B, n): h[0] in, the others out.
extern "C" __global__ void __launch_bounds__(512, 1) elman_complex_forward(
    const REAL* __restrict__ U, const REAL* __restrict__ b, REAL* P, REAL* h, Sizes z) {
  extern __shared__ __align__(16) REAL memory[];
  int depth = padded(z.n);
  REAL *v = memory, *part = v + z.rows * depth, *rest = part + z.partial;
  Factor all = factor(U, 1, 1, &rest, z);
  long long step = (long long)z.B * z.n;
  for (int first = first_row(z); first < z.B; first += to_next_rows(z)) {
    Own own = own_of(first, z);
    REAL* own_v = v + own.row * depth + own.unit;
    REAL own_b = own.there ? b[own.unit / 2] : REAL(0);
    gather(v, 1, 0, h, first, z);
    __syncthreads();
    for (int t = 0; t < z.T; ++t) {
      long long at = t * step + own.at;
      Complex z_t = {};
      if (own.there) z_t = pair(P, at, own);  // before the products and a barrier, behind which its thread writes
      products(all, v, depth, part, z);       // [urnn:1/z]
      __syncthreads();
      if (own.there) {
        Complex Uh = total_pair(part, all, own, z);
        z_t = {z_t.re + Uh.re, z_t.im + Uh.im};       // [urnn:1/z]
        REAL rho = hypot(z_t.re, z_t.im), own_z = own.unit % 2 ? z_t.im : z_t.re;
        REAL m = rho + own_b;
        m = m > 0 || isnan(m) ? m : REAL(0);
        REAL h_t = own_z * (m / (rho < TINY ? rho + 1 : rho));  // [urnn:8]
        P[at] = own_z;
        *own_v = h_t;
        __stcg(h + step + at, h_t);
      }
      if (z.spread) {
        across_blocks();
        gather(v, 1, 0, h + (t + 1) * step, first, z);
      }
      __syncthreads();
    }
  }
}

// U (padded n, n): of the weight's conjugate.  dh, F, G (T, B, n) in, F real; dz, g (T, B, n) out.  last (B, n): all of
// dL/dh_T but dh's in, dL/dh_0 out.
extern "C" __global__ void __launch_bounds__(512, 1) elman_complex_backward(
    const REAL* __restrict__ U, const REAL* __restrict__ dh, const REAL* __restrict__ F, const REAL* __restrict__ G,
    REAL* dz, REAL* g, REAL* last, Sizes z) {
  extern __shared__ __align__(16) REAL memory[];
  int depth = padded(z.n);
  REAL *v = memory, *part = v + z.rows * depth, *rest = part + z.partial;
  Factor all = factor(U, 1, 1, &rest, z);
  long long step = (long long)z.B * z.n;
  for (int first = first_row(z); first < z.B; first += to_next_rows(z)) {
    Own own = own_of(first, z);
    REAL* own_v = v + own.row * depth + own.unit;
    long long at = (z.T - 1) * step + own.at;
    Complex g_t = {}, dh_t = {}, F_t = {}, G_t = {};
    auto read = [&](long long at) {
      dh_t = pair(dh, at, own);
      F_t = pair(F, at, own);
      G_t = pair(G, at, own);
    };
    clear(v, 1, z);
    if (own.there) {
      g_t = pair(last, own.at, own);
      read(at);
    }
    __syncthreads();
    for (int t = z.T - 1; t >= 0; --t, at -= step) {
      if (own.there) {
        g_t = {g_t.re + dh_t.re, g_t.im + dh_t.im};  // [bp:bptt/g]
        REAL dz_re = g_t.re * F_t.re + (g_t.re * G_t.re + g_t.im * G_t.im);  // [bp:modrelu-complex]
        REAL dz_im = g_t.im * F_t.re + (g_t.re * G_t.im - g_t.im * G_t.re);  // [bp:modrelu-complex]
        REAL dz_t = own.unit % 2 ? dz_im : dz_re;
        g[at] = own.unit % 2 ? g_t.im : g_t.re;
        *own_v = dz_t;
        __stcg(dz + at, dz_t);
        if (t) read(at - step);  // the next step's, asked for before the products
      }
      if (z.spread) {
        across_blocks();
        gather(v, 1, 0, dz + t * step, first, z);
      }
      __syncthreads();
      products(all, v, depth, part, z);  // [bp:rnn/2]
      __syncthreads();
      if (own.there) g_t = total_pair(part, all, own, z);  // [bp:rnn/2]
    }
    if (own.there) last[own.at] = own.unit % 2 ? g_t.im : g_t.re;
  }
}
