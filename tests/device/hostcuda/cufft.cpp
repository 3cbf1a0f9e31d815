// cuFFT, as much of it as complex transforms of contiguous rows, by the definition, in float64.
#include <cmath>
#include <map>
#include <vector>

#include "fortran.h"

namespace {

enum Result { success = 0, invalid_plan = 1 };
struct Plan { int n, batch; };

std::map<int, Plan> plans;
int plans_so_far;

template <class T> int transform(int number, const T* in, T* out, int direction) {
  ++hc_state.libraries;
  if (!plans.count(number)) return invalid_plan;
  auto [n, batch] = plans[number];
  std::vector<DoubleComplex> roots(n), row(n);
  for (int k = 0; k < n; ++k) roots[k] = std::polar(1.0, direction * 2 * M_PI * k / n);
  for (int64_t b = 0; b < batch && hc_state.executed; ++b) {
    row.assign(in + b * n, in + (b + 1) * n);
    for (int64_t k = 0; k < n; ++k) {
      DoubleComplex sum = 0;
      for (int64_t j = 0; j < n; ++j) sum += row[j] * roots[j * k % n];
      out[b * n + k] = T(sum);
    }
  }
  return success;
}

}  // namespace

extern "C" {

int cufftCreate(int* plan) { return *plan = ++plans_so_far, success; }
int cufftDestroy(int plan) { return plans.erase(plan), success; }
int cufftSetAutoAllocation(int, int) { return success; }
int cufftSetWorkArea(int, void*) { return success; }
int cufftSetStream(int, void*) { return success; }
int cufftGetVersion(int* version) { return *version = HC_CUDA_VERSION, success; }
int cufftMakePlan1d(int plan, int n, int, int batch, size_t* size) { return plans[plan] = {n, batch}, *size = 1, success; }
int cufftExecC2C(int plan, Complex* in, Complex* out, int direction) { return transform(plan, in, out, direction); }
int cufftExecZ2Z(int plan, DoubleComplex* in, DoubleComplex* out, int direction) {
  return transform(plan, in, out, direction);
}

}  // extern "C"
