// Kernels and their launches.
#pragma once
#include "state.h"

struct uint3 { unsigned x, y, z; };
struct dim3 { unsigned x, y, z; };

namespace hostcuda {

struct Kernel {
  const char* name;
  void (*call)(void** arguments);
  bool fibers;                       // it has barriers, atomics or shared memory: its threads take turns
  bool flush;                        // float32 alone: subnormal numbers are 0, as with -ftz=true
  char *shared_begin, *shared_end;   // its static shared memory, that of the running block
  int64_t dynamic_limit;             // bytes of dynamic shared memory that it may have
};

struct Launch {
  Kernel* kernel;
  dim3 grid, block;
  unsigned dynamic_shared;
  void** arguments;
  bool cooperative;

  unsigned threads() const { return block.x * block.y * block.z; }
  uint64_t blocks() const { return uint64_t(grid.x) * grid.y * grid.z; }
  size_t static_shared() const { return size_t(kernel->shared_end - kernel->shared_begin); }
};

// How many such blocks a multiprocessor holds, by its threads and its shared memory (registers are not known here).
unsigned blocks_per_multiprocessor(unsigned threads, size_t shared);

// Runs a kernel, every thread of it, on this thread of the host.
Error run(const Launch& launch);

}  // namespace hostcuda
