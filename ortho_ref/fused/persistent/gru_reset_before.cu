// The two loops over time of fused/gru_reset_before.py, a launch each, quick on a GPU; held to them by test_persistent.

// U_ru (padded n, 2 n), U_c (padded n, n): transposes.  P (3, T, B, n): W x + b in; r, u, c out.  h (T+1, B, n): h[0] in,
// the others out.  s (B, n): scratch.
extern "C" __global__ void __launch_bounds__(512, 1) gru_reset_before_forward(
    const REAL* __restrict__ U_ru, const REAL* __restrict__ U_c, const REAL* __restrict__ b_c, REAL* P, REAL* h, REAL* s,
    int activation, Sizes z) {
  extern __shared__ __align__(16) REAL memory[];
  REAL *v = memory, *part = v + z.rows * padded(z.n), *rest = part + z.partial;
  Factor ru = factor(U_ru, 1, 2, &rest, z), c = factor(U_c, 1, 1, &rest, z);
  long long step = (long long)z.B * z.n, gate = z.T * step;
  for (int first = first_row(z); first < z.B; first += to_next_rows(z)) {
    Own own = own_of(first, z);
    REAL* own_v = v + own.row * padded(z.n) + own.unit;
    REAL h_prev = own.there ? h[own.at] : REAL(0), b = own.there ? b_c[own.unit] : REAL(0), u_t = 0;
    gather(v, 1, 0, h, first, z);
    __syncthreads();
    for (int t = 0; t < z.T; ++t) {
      long long at = t * step + own.at;
      REAL P_r = 0, P_u = 0, P_c = 0;
      if (own.there) {  // asked for before the products, which take as long as they do
        P_r = P[at];
        P_u = P[gate + at];
        P_c = P[2 * gate + at];
      }
      products(ru, v, padded(z.n), part, z);  // [ncgru:1/r] [ncgru:1/u]
      __syncthreads();
      if (own.there) {
        REAL r_t = sigmoid(P_r + total(part, ru, 0, own, z));  // [ncgru:1/r]
        u_t = sigmoid(P_u + total(part, ru, 1, own, z));       // [ncgru:1/u]
        REAL s_t = r_t * h_prev;                               // [ncgru:1/s]
        P[at] = r_t;
        P[gate + at] = u_t;
        *own_v = s_t;
        __stcg(s + own.at, s_t);
      }
      if (z.spread) {
        across_blocks();
        gather(v, 1, 0, s, first, z);
      }
      __syncthreads();
      products(c, v, padded(z.n), part, z);  // [ncgru:35]
      __syncthreads();
      if (own.there) {
        REAL a_t = P_c + total(part, c, 0, own, z);    // [ncgru:35]
        REAL c_t = value(activation, a_t, b);          // [ncgru:1/c] [ncgru:19/c]
        h_prev = (c_t - h_prev) * u_t + h_prev;        // [ncgru:1/h]
        P[2 * gate + at] = c_t;
        *own_v = h_prev;
        __stcg(h + step + at, h_prev);
      }
      if (z.spread) {
        across_blocks();
        gather(v, 1, 0, h + (t + 1) * step, first, z);
      }
      __syncthreads();
    }
  }
}

// U_ru (2 padded n, n), U_c (padded n, n): U_r over U_u, and U_c.  dh and the factors (T, B, n) in; da (3, T, B, n) of
// r, u, c out.  g (B, n): all of dL/dh_T but dh's in, dL/dh_0 out.
extern "C" __global__ void __launch_bounds__(512, 1) gru_reset_before_backward(
    const REAL* __restrict__ U_ru, const REAL* __restrict__ U_c, const REAL* __restrict__ dh,
    const REAL* __restrict__ F_u, const REAL* __restrict__ F_c, const REAL* __restrict__ F_r, const REAL* __restrict__ r,
    const REAL* __restrict__ keep, REAL* da, REAL* g, Sizes z) {
  extern __shared__ __align__(16) REAL memory[];
  int depth = padded(z.n), width = 2 * depth;  // of v's slots: c and after it r, u
  REAL *v = memory, *part = v + z.rows * width, *rest = part + z.partial;
  Factor ru = factor(U_ru, 2, 1, &rest, z), c = factor(U_c, 1, 1, &rest, z);
  long long step = (long long)z.B * z.n, gate = z.T * step;
  for (int first = first_row(z); first < z.B; first += to_next_rows(z)) {
    Own own = own_of(first, z);
    REAL* own_v = v + own.row * width + own.unit;
    REAL g_t = 0, dh_t = 0, F_u_t = 0, F_c_t = 0;
    long long at = (z.T - 1) * step + own.at;
    clear(v, 2, z);
    if (own.there) {
      g_t = g[own.at];
      dh_t = dh[at];
      F_u_t = F_u[at];
      F_c_t = F_c[at];
    }
    __syncthreads();
    for (int t = z.T - 1; t >= 0; --t, at -= step) {
      REAL F_r_t = 0, r_t = 0, keep_t = 0, ds = 0;
      if (own.there) {
        g_t = g_t + dh_t;          // [bp:bptt/g]
        REAL da_u = g_t * F_u_t;   // [bp:gru1/1] [bp:gru1/4]
        REAL da_c = g_t * F_c_t;   // [bp:gru1/1] [bp:gru1/2]
        own_v[0] = da_c;
        own_v[depth] = da_u;
        __stcg(da + gate + at, da_u);
        __stcg(da + 2 * gate + at, da_c);
        F_r_t = F_r[at];
        r_t = r[at];
        keep_t = keep[at];
      }
      if (z.spread) {
        across_blocks();
        gather(v, 2, 0, da + 2 * gate + t * step, first, z);
        gather(v, 2, 1, da + gate + t * step, first, z);
      }
      __syncthreads();
      products(c, v, width, part, z);  // [bp:gru1/2]
      __syncthreads();
      if (own.there) {
        ds = total(part, c, 0, own, z);  // [bp:gru1/2]
        REAL da_r = ds * F_r_t;          // [bp:gru1/3] [bp:gru1/4]
        own_v[0] = da_r;
        __stcg(da + at, da_r);
        if (t) {  // the next step's, asked for before the products
          dh_t = dh[at - step];
          F_u_t = F_u[at - step];
          F_c_t = F_c[at - step];
        }
      }
      if (z.spread) {
        across_blocks();
        gather(v, 2, 0, da + t * step, first, z);
      }
      __syncthreads();
      products(ru, v, width, part, z);  // [bp:gru1/5]
      __syncthreads();
      if (own.there) g_t = g_t * keep_t + ds * r_t + total(part, ru, 0, own, z);  // [bp:gru1/1] [bp:gru1/3] [bp:gru1/5]
    }
    if (own.there) g[own.at] = g_t;
  }
}
