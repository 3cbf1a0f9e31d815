// What the parts of the device share: its switches, its counters, and where a failure is put.
#pragma once
#include <cstddef>
#include <cstdint>

extern "C" {
// Python sees it through ctypes, as `State` in __init__.py: the same fields in the same order, all of eight bytes.
struct hc_State {
  int64_t order;           // of threads, warps and blocks: one of Order
  int64_t seed;            // of what is shuffled; Python changes it, and turn to 0
  int64_t turn;            // kernels since the seed was set
  int64_t executed;        // 0: launches and library calls do nothing, which leaves the host's part of the time
  int64_t shuffled_sums;   // 1: transposed sparse products add in another order each time
  int64_t traced;          // 1: a copy to the host prints the Python stack
  int64_t memory;          // bytes that can be had
  int64_t allocated;       // bytes that were
  int64_t kernels, products, libraries, to_host, to_device, waits;
};
extern hc_State hc_state;
}

namespace hostcuda {

enum Order { in_order, reversed, shuffled };

// Errors as CUDA numbers them, in the driver and in the runtime.
enum Error {
  success = 0,
  invalid_value = 1,
  out_of_memory = 2,
  invalid_image = 200,
  not_found = 500,
  illegal_address = 700,
  launch_failed = 719,
  cooperative_launch_too_large = 720,
  not_supported = 801
};

// The limits of the device that is imitated, an H100 (compute capability 9.0).
constexpr unsigned WARP = 32, MULTIPROCESSORS = 132, THREADS_PER_BLOCK = 1024, THREADS_PER_MULTIPROCESSOR = 2048;
constexpr unsigned BLOCKS_PER_MULTIPROCESSOR = 32, SHARED_PER_BLOCK = 227 << 10, SHARED_PER_MULTIPROCESSOR = 228 << 10;
constexpr unsigned SHARED_WITHOUT_ASKING = 48 << 10;

// What the error string of the driver says after this error; printf's arguments.
Error fail(Error error, const char* format, ...) __attribute__((format(printf, 2, 3)));
const char* last_message();

}  // namespace hostcuda
