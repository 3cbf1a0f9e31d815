// The two loops over time of fused/elman.py, a launch each, quick on a GPU; held to them by test_persistent.

// U (padded n, n): the weight's transpose.  P (T, B, n): W x + b in.  h (T+1, B, n): h[0] in, the others out.
extern "C" __global__ void __launch_bounds__(512, 1) elman_forward(
    const REAL* __restrict__ U, const REAL* __restrict__ b, const REAL* __restrict__ P, REAL* h, int activation,
    Sizes z) {
  extern __shared__ __align__(16) REAL memory[];
  int depth = padded(z.n);
  REAL *v = memory, *part = v + z.rows * depth, *rest = part + z.partial;
  Factor all = factor(U, 1, 1, &rest, z);
  long long step = (long long)z.B * z.n;
  for (int first = first_row(z); first < z.B; first += to_next_rows(z)) {
    Own own = own_of(first, z);
    REAL* own_v = v + own.row * depth + own.unit;
    REAL own_b = own.there ? b[own.unit] : REAL(0);
    gather(v, 1, 0, h, first, z);
    __syncthreads();
    for (int t = 0; t < z.T; ++t) {
      long long at = t * step + own.at;
      REAL P_t = own.there ? P[at] : REAL(0);  // asked for before the products, which take as long as it does
      products(all, v, depth, part, z);        // [urnn:1/z]
      __syncthreads();
      if (own.there) {
        REAL z_t = P_t + total(part, all, 0, own, z);  // [urnn:1/z]
        REAL h_t = value(activation, z_t, own_b);      // [urnn:1/h] [goru:2.6]
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

// U (padded n, n): the weight.  dh, F (T, B, n) in; dz (T, B, n) out.  g (B, n): all of dL/dh_T but dh's in, dL/dh_0 out.
extern "C" __global__ void __launch_bounds__(512, 1) elman_backward(
    const REAL* __restrict__ U, const REAL* __restrict__ dh, const REAL* __restrict__ F, REAL* dz, REAL* g, Sizes z) {
  extern __shared__ __align__(16) REAL memory[];
  int depth = padded(z.n);
  REAL *v = memory, *part = v + z.rows * depth, *rest = part + z.partial;
  Factor all = factor(U, 1, 1, &rest, z);
  long long step = (long long)z.B * z.n;
  for (int first = first_row(z); first < z.B; first += to_next_rows(z)) {
    Own own = own_of(first, z);
    REAL* own_v = v + own.row * depth + own.unit;
    long long at = (z.T - 1) * step + own.at;
    REAL g_t = 0, dh_t = 0, F_t = 0;
    clear(v, 1, z);
    if (own.there) {
      g_t = g[own.at];
      dh_t = dh[at];
      F_t = F[at];
    }
    __syncthreads();
    for (int t = z.T - 1; t >= 0; --t, at -= step) {
      if (own.there) {
        REAL dz_t = (g_t + dh_t) * F_t;  // [bp:bptt/g] [bp:rnn/1]
        *own_v = dz_t;
        __stcg(dz + at, dz_t);
        if (t) {  // the next step's, asked for before the products
          dh_t = dh[at - step];
          F_t = F[at - step];
        }
      }
      if (z.spread) {
        across_blocks();
        gather(v, 1, 0, dz + t * step, first, z);
      }
      __syncthreads();
      products(all, v, depth, part, z);  // [bp:rnn/2]
      __syncthreads();
      if (own.there) g_t = total(part, all, 0, own, z);  // [bp:rnn/2]
    }
    if (own.there) g[own.at] = g_t;
  }
}
