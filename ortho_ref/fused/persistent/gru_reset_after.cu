// The two loops over time of fused/gru_reset_after.py, a launch each, quick on a GPU; held to them by test_persistent.

// Which gates are on, r and z, and whether there is b_hh.
struct Options {
  int reset, update, recurrent_bias;
};

// U (padded n, (G + 1) n): transposes of U of the gates that are on, and of U_h.  r, z (n,): of gates that are off.
// P (G + 1, T, B, n): W x + b in; the gates and c out.  p (T, B, n) out.  h (T+1, B, n): h[0] in, the others out.
extern "C" __global__ void __launch_bounds__(512, 1) gru_reset_after_forward(
    const REAL* __restrict__ U, const REAL* __restrict__ b_h, const REAL* __restrict__ b_hh, const REAL* __restrict__ r,
    const REAL* __restrict__ z, REAL* P, REAL* p, REAL* h, int activation, Options on, Sizes sizes) {
  extern __shared__ __align__(16) REAL memory[];
  int G = on.reset + on.update, depth = padded(sizes.n);
  REAL *v = memory, *part = v + sizes.rows * depth, *rest = part + sizes.partial;
  Factor all = factor(U, 1, G + 1, &rest, sizes);
  long long step = (long long)sizes.B * sizes.n, gate = sizes.T * step;
  for (int first = first_row(sizes); first < sizes.B; first += to_next_rows(sizes)) {
    Own own = own_of(first, sizes);
    REAL* own_v = v + own.row * depth + own.unit;
    REAL h_prev = 0, b = 0, b_p = 0, r_t = 0, z_t = 0;
    if (own.there) {
      h_prev = h[own.at];
      b = b_h[own.unit];
      b_p = on.recurrent_bias ? b_hh[own.unit] : REAL(0);
      r_t = on.reset ? REAL(0) : r[own.unit];   // [goru:abl]
      z_t = on.update ? REAL(0) : z[own.unit];  // [goru:abl]
    }
    gather(v, 1, 0, h, first, sizes);
    __syncthreads();
    for (int t = 0; t < sizes.T; ++t) {
      long long at = t * step + own.at;
      REAL P_r = 0, P_z = 0, P_h = 0;
      if (own.there) {  // asked for before the products, which take as long as they do
        P_r = P[at];
        P_z = P[on.reset * gate + at];
        P_h = P[G * gate + at];
      }
      products(all, v, depth, part, sizes);  // [goru:2.4] [goru:2.3] [goru:2.2/p]
      __syncthreads();
      if (own.there) {
        if (on.reset) r_t = P[at] = sigmoid(P_r + total(part, all, 0, own, sizes));                             // [goru:2.4]
        if (on.update) z_t = P[on.reset * gate + at] = sigmoid(P_z + total(part, all, on.reset, own, sizes));  // [goru:2.3]
        REAL p_t = total(part, all, G, own, sizes) + b_p;  // [goru:2.2/p]
        REAL a_t = P_h + p_t * r_t;                        // [goru:2.2/a]
        REAL c_t = value(activation, a_t, b);              // [goru:2.2/c]
        h_prev = (h_prev - c_t) * z_t + c_t;               // [goru:2.2/h]
        p[at] = p_t;
        P[G * gate + at] = c_t;
        *own_v = h_prev;
        __stcg(h + step + at, h_prev);
      }
      if (sizes.spread) {
        across_blocks();
        gather(v, 1, 0, h + (t + 1) * step, first, sizes);
      }
      __syncthreads();
    }
  }
}

// U ((G + 1) padded n, n): U of the gates that are on, over U_h.  dh, the factors, r and z (T, B, n) in; da_h, dp, da_r,
// da_z (T, B, n) out.  g (B, n): all of dL/dh_T but dh's in, dL/dh_0 out.
extern "C" __global__ void __launch_bounds__(512, 1) gru_reset_after_backward(
    const REAL* __restrict__ U, const REAL* __restrict__ dh, const REAL* __restrict__ F_h, const REAL* __restrict__ F_r,
    const REAL* __restrict__ F_z, const REAL* __restrict__ r, const REAL* __restrict__ z, REAL* da_h, REAL* dp,
    REAL* da_r, REAL* da_z, REAL* g, Options on, Sizes sizes) {
  extern __shared__ __align__(16) REAL memory[];
  int G = on.reset + on.update, depth = padded(sizes.n), width = (G + 1) * depth;  // of v's slots: r, z where on, p
  REAL *v = memory, *part = v + sizes.rows * width, *rest = part + sizes.partial;
  Factor all = factor(U, G + 1, 1, &rest, sizes);
  long long step = (long long)sizes.B * sizes.n;
  for (int first = first_row(sizes); first < sizes.B; first += to_next_rows(sizes)) {
    Own own = own_of(first, sizes);
    REAL* own_v = v + own.row * width + own.unit;
    long long at = (sizes.T - 1) * step + own.at;
    REAL g_t = 0, dh_t = 0, F_h_t = 0, F_r_t = 0, F_z_t = 0, r_t = 0, z_t = 0;
    auto read = [&](long long at) {
      dh_t = dh[at];
      F_h_t = F_h[at];
      F_r_t = F_r[at];
      F_z_t = F_z[at];
      r_t = r[at];
      z_t = z[at];
    };
    clear(v, G + 1, sizes);
    if (own.there) {
      g_t = g[own.at];
      read(at);
    }
    __syncthreads();
    for (int t = sizes.T - 1; t >= 0; --t, at -= step) {
      if (own.there) {
        g_t = g_t + dh_t;             // [bp:bptt/g]
        REAL da_h_t = g_t * F_h_t;    // [bp:gru2/1] [bp:gru2/2]
        REAL dp_t = da_h_t * r_t;     // [bp:gru2/3]
        REAL da_r_t = da_h_t * F_r_t; // [bp:gru2/3] [bp:gru2/4] [bp:gru2/5]
        REAL da_z_t = g_t * F_z_t;    // [bp:gru2/1] [bp:gru2/4] [bp:gru2/5]
        g_t = g_t * z_t;              // [bp:gru2/1]
        if (on.reset) own_v[0] = da_r_t;
        if (on.update) own_v[on.reset * depth] = da_z_t;
        own_v[G * depth] = dp_t;
        da_h[at] = da_h_t;
        __stcg(dp + at, dp_t);
        __stcg(da_r + at, da_r_t);
        __stcg(da_z + at, da_z_t);
        if (t) read(at - step);  // the next step's, asked for before the products
      }
      if (sizes.spread) {
        across_blocks();
        if (on.reset) gather(v, G + 1, 0, da_r + t * step, first, sizes);
        if (on.update) gather(v, G + 1, on.reset, da_z + t * step, first, sizes);
        gather(v, G + 1, G, dp + t * step, first, sizes);
      }
      __syncthreads();
      products(all, v, width, part, sizes);  // [bp:gru2/3] [bp:gru2/4]
      __syncthreads();
      if (own.there) g_t = g_t + total(part, all, 0, own, sizes);  // [bp:gru2/3] [bp:gru2/4]
    }
    if (own.there) g[own.at] = g_t;
  }
}
