// The two loops over time of fused/lstm.py, a launch each, quick on a GPU; held to them by test_persistent.

// U (padded n, 4 n): transposes of U of o, i, f, g.  P (4, T, B, n): W x + b in; o, i, f, g out.  h, c (T+1, B, n): h[0],
// c[0] in, the others out.  y (T, B, n): tanh(c) out.
extern "C" __global__ void __launch_bounds__(512, 1) lstm_forward(
    const REAL* __restrict__ U, REAL* P, REAL* h, REAL* c, REAL* y, Sizes z) {
  extern __shared__ __align__(16) REAL memory[];
  int depth = padded(z.n);
  REAL *v = memory, *part = v + z.rows * depth, *rest = part + z.partial;
  Factor oifg = factor(U, 1, 4, &rest, z);
  long long step = (long long)z.B * z.n, gate = z.T * step;
  for (int first = first_row(z); first < z.B; first += to_next_rows(z)) {
    Own own = own_of(first, z);
    REAL* own_v = v + own.row * depth + own.unit;
    REAL c_t = own.there ? c[own.at] : REAL(0);
    gather(v, 1, 0, h, first, z);
    __syncthreads();
    for (int t = 0; t < z.T; ++t) {
      long long at = t * step + own.at;
      REAL P_o = 0, P_i = 0, P_f = 0, P_g = 0;
      if (own.there) {  // asked for before the products, which take as long as they do
        P_o = P[at];
        P_i = P[gate + at];
        P_f = P[2 * gate + at];
        P_g = P[3 * gate + at];
      }
      products(oifg, v, depth, part, z);  // [bp:lstm/o] [bp:lstm/i] [bp:lstm/f] [bp:lstm/g]
      __syncthreads();
      if (own.there) {
        REAL o_t = sigmoid(P_o + total(part, oifg, 0, own, z));  // [bp:lstm/o]
        REAL i_t = sigmoid(P_i + total(part, oifg, 1, own, z));  // [bp:lstm/i]
        REAL f_t = sigmoid(P_f + total(part, oifg, 2, own, z));  // [bp:lstm/f]
        REAL g_t = tanh(P_g + total(part, oifg, 3, own, z));     // [bp:lstm/g]
        c_t = f_t * c_t + i_t * g_t;                             // [bp:lstm/c]
        REAL y_t = tanh(c_t), h_t = o_t * y_t;                   // [bp:lstm/h]
        P[at] = o_t;
        P[gate + at] = i_t;
        P[2 * gate + at] = f_t;
        P[3 * gate + at] = g_t;
        c[step + at] = c_t;
        y[at] = y_t;
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

// U (4 padded n, n): U of o, i, f, g, one over the other.  dh, F_o, F_y, f (T, B, n), F (3, T, B, n) of i, f, g in;
// da (4, T, B, n) of o, i, f, g out.  dh_T, dc_T (B, n): all of dL/dh_T but dh's, and of dL/dc_T but what comes through h,
// in; dL/dh_0 and dL/dc_0 out.
extern "C" __global__ void __launch_bounds__(512, 1) lstm_backward(
    const REAL* __restrict__ U, const REAL* __restrict__ dh, const REAL* __restrict__ F, const REAL* __restrict__ F_o,
    const REAL* __restrict__ F_y, const REAL* __restrict__ f, REAL* da, REAL* dh_T, REAL* dc_T, Sizes z) {
  extern __shared__ __align__(16) REAL memory[];
  int depth = padded(z.n), width = 4 * depth;  // of v's slots: o, i, f, g
  REAL *v = memory, *part = v + z.rows * width, *rest = part + z.partial;
  Factor oifg = factor(U, 4, 1, &rest, z);
  long long step = (long long)z.B * z.n, gate = z.T * step;
  for (int first = first_row(z); first < z.B; first += to_next_rows(z)) {
    Own own = own_of(first, z);
    REAL* own_v = v + own.row * width + own.unit;
    long long at = (z.T - 1) * step + own.at;
    REAL dh_t = 0, dc_t = 0, dh_own = 0, F_o_t = 0, F_y_t = 0, F_i_t = 0, F_f_t = 0, F_g_t = 0, f_t = 0;
    auto read = [&](long long at) {
      dh_own = dh[at];
      F_o_t = F_o[at];
      F_y_t = F_y[at];
      F_i_t = F[at];
      F_f_t = F[gate + at];
      F_g_t = F[2 * gate + at];
      f_t = f[at];
    };
    clear(v, 4, z);
    if (own.there) {
      dh_t = dh_T[own.at];
      dc_t = dc_T[own.at];
      read(at);
    }
    __syncthreads();
    for (int t = z.T - 1; t >= 0; --t, at -= step) {
      if (own.there) {
        dh_t = dh_t + dh_own;         // [bp:bptt/g]
        REAL da_o = dh_t * F_o_t;     // [bp:lstm/1] [bp:lstm/4]
        dc_t = dc_t + dh_t * F_y_t;   // [bp:lstm/1]
        REAL da_i = dc_t * F_i_t;     // [bp:lstm/2] [bp:lstm/4]
        REAL da_f = dc_t * F_f_t;     // [bp:lstm/2] [bp:lstm/4]
        REAL da_g = dc_t * F_g_t;     // [bp:lstm/2] [bp:lstm/4]
        dc_t = dc_t * f_t;            // [bp:lstm/3]
        own_v[0] = da_o;
        own_v[depth] = da_i;
        own_v[2 * depth] = da_f;
        own_v[3 * depth] = da_g;
        __stcg(da + at, da_o);
        __stcg(da + gate + at, da_i);
        __stcg(da + 2 * gate + at, da_f);
        __stcg(da + 3 * gate + at, da_g);
        if (t) read(at - step);  // the next step's, asked for before the products
      }
      if (z.spread) {
        across_blocks();
        for (int slot = 0; slot < 4; ++slot) gather(v, 4, slot, da + slot * gate + t * step, first, z);
      }
      __syncthreads();
      products(oifg, v, width, part, z);  // [bp:lstm/5]
      __syncthreads();
      if (own.there) dh_t = total(part, oifg, 0, own, z);  // [bp:lstm/5]
    }
    if (own.there) {
      dh_T[own.at] = dh_t;
      dc_T[own.at] = dc_t;
    }
  }
}
