// Runs a kernel's threads on one thread of the host: one after the other, or, where they wait for each other, as
// fibers.  A fiber runs until it waits at a barrier or yields (atomics, __nanosleep, __threadfence).  A warp runs as
// far as it can before the next one does, and a block before the next block, so that a barrier that is missing shows.
// Blocks that wait for each other stay, as many as the device has room for.
#include "common.h"

#include <xmmintrin.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <vector>

extern "C" {
uint3 hc_threadIdx, hc_blockIdx;
dim3 hc_blockDim, hc_gridDim;
char* hc_dynamic_shared;
// Keeps the callee-saved registers on the stack that is left, its pointer in *save, and goes on on another stack.
void hc_switch(void** save, void* to);
}

asm(R"(
.text
.globl hc_switch
.type hc_switch,@function
hc_switch:
  pushq %rbp; pushq %rbx; pushq %r12; pushq %r13; pushq %r14; pushq %r15
  movq %rsp,(%rdi)
  movq %rsi,%rsp
  popq %r15; popq %r14; popq %r13; popq %r12; popq %rbx; popq %rbp
  ret
)");

namespace hostcuda {
namespace {

constexpr size_t STACK = 64 << 10, EXCHANGE = 16, RED_ZONE = 256;
constexpr uint64_t CANARY = 0x5afe57ac4babe000;
constexpr int64_t PATIENCE = 4000000;  // turns without a thread that gets to a barrier or to its end

enum State { ready, yielded, at_warp, at_block, at_grid, done };

using Stack = std::unique_ptr<char[]>;

struct Fiber {
  Stack stack;
  void* stack_pointer;
  State state;
  unsigned mask;  // of the warp's barrier
  int line;       // of the block's
};

struct Block {
  uint3 index;
  std::vector<Fiber> fibers;
  std::vector<char> static_shared, dynamic_shared, exchange;
  std::vector<bool> slow;  // warps that seldom get their turn, in the shuffled order

  size_t count(State state) const {
    return std::count_if(fibers.begin(), fibers.end(), [=](const Fiber& fiber) { return fiber.state == state; });
  }
  // Lets threads go on that wait.
  void release(State state) {
    for (Fiber& fiber : fibers)
      if (fiber.state == state) fiber.state = ready;
  }
};

std::minstd_rand generator;
std::vector<Stack> free_stacks;

unsigned random_below(unsigned n) { return generator() % n; }

// 0 ... n - 1 as the device's order has it.
std::vector<unsigned> arranged(size_t n) {
  std::vector<unsigned> numbers(n);
  std::iota(numbers.begin(), numbers.end(), 0u);
  if (hc_state.order == reversed) std::reverse(numbers.begin(), numbers.end());
  if (hc_state.order == shuffled) std::shuffle(numbers.begin(), numbers.end(), generator);
  return numbers;
}

// Where the thread or block of a number is.
uint3 index_of(unsigned number, dim3 size) {
  return {number % size.x, number / size.x % size.y, number / size.x / size.y};
}

void begin_thread();  // of the grid that runs

// A fiber that begins a thread of the kernel when it is first switched to.
Fiber new_fiber() {
  Stack stack;
  if (free_stacks.empty()) {
    stack.reset(new char[STACK]);
  } else {
    stack = std::move(free_stacks.back());
    free_stacks.pop_back();
  }
  memcpy(stack.get(), &CANARY, sizeof CANARY);
  void** top = reinterpret_cast<void**>(stack.get() + STACK) - 1;  // so that rsp + 8 is a multiple of 16 at entry
  *--top = reinterpret_cast<void*>(begin_thread);
  for (int i = 0; i < 6; ++i) *--top = nullptr;  // the registers that hc_switch takes
  return {std::move(stack), top, ready, 0, 0};
}

// One launch of a kernel whose threads are fibers.
struct Grid {
  const Launch& launch;
  std::vector<std::unique_ptr<Block>> resident = {};
  Block* block = nullptr;  // that runs
  Fiber* fiber = nullptr;
  void* scheduler = nullptr;
  int64_t idle = 0;
  Error error = SUCCESS;

  Error run() {
    size_t room = size_t(MULTIPROCESSORS) * blocks_per_multiprocessor(launch.threads(), launch.shared());
    std::vector<unsigned> order = arranged(launch.blocks());
    size_t next = 0;
    if (launch.cooperative && order.size() > room)
      return fail(COOPERATIVE_LAUNCH_TOO_LARGE, "kernel %s: %zu blocks; room for %zu", launch.kernel.name,
                  order.size(), room);
    while (error == SUCCESS && (next < order.size() || !resident.empty())) {
      size_t waiting = 0, threads = 0;
      for (auto& one : resident) {
        waiting += one->count(at_grid);
        threads += one->fibers.size() - one->count(done);
      }
      if (waiting && !launch.cooperative) fault("grid.sync() in a launch that is not cooperative");
      bool stuck = idle > int64_t(16 * threads), all = next == order.size();
      if (!all && resident.size() < room && (launch.cooperative || stuck || !threads))
        resident.push_back(start(order[next++]));
      else if (all && waiting == threads)
        for (auto& one : resident) one->release(at_grid);
      else if (idle > PATIENCE || (!all && resident.size() == room && idle > int64_t(1000 * room)))
        fault("%zu of %zu threads wait for the grid, the others for what does not come", waiting, threads);
      for (unsigned i : arranged(resident.size())) {
        block = resident[i].get();
        if (error == SUCCESS) advance();
        if (error == SUCCESS && finish()) resident[i].reset();
      }
      resident.erase(std::remove(resident.begin(), resident.end(), nullptr), resident.end());
    }
    return error;
  }

  // Called by a thread: it waits, or is done.
  void wait(State state, unsigned mask = 0, int line = 0) {
    fiber->state = state;
    fiber->mask = mask;
    fiber->line = line;
    hc_switch(&fiber->stack_pointer, scheduler);
  }

  void thread() {
    launch.kernel.call(launch.arguments);
    wait(done);
  }

  template <class... A> void fault(const char* format, A... values) {
    fail(LAUNCH_FAILED, format, values...);
    std::string what = last_message();
    error = fail(LAUNCH_FAILED, "kernel %s, block (%u, %u, %u): %s", launch.kernel.name, hc_blockIdx.x,
                  hc_blockIdx.y, hc_blockIdx.z, what.c_str());
  }

  std::unique_ptr<Block> start(unsigned number) {
    auto made = std::make_unique<Block>();
    made->index = index_of(number, launch.grid);
    made->static_shared.assign(launch.kernel.static_shared(), POISON);
    made->dynamic_shared.assign(launch.dynamic_shared + RED_ZONE, POISON);
    made->exchange.assign(EXCHANGE * (launch.threads() + WARP), POISON);
    for (unsigned i = 0; i < launch.threads(); i += WARP)
      made->slow.push_back(hc_state.order == shuffled && random_below(4) == 0);
    for (unsigned i = 0; i < launch.threads(); ++i) made->fibers.push_back(new_fiber());
    return made;
  }

  // Lets the barriers of a warp go that have all their threads; whether one did.
  bool release_warp(Fiber* begin, Fiber* end) {
    bool released = false;
    for (Fiber* fiber = begin; fiber < end; ++fiber) {
      if (fiber->state != at_warp) continue;
      unsigned mask = fiber->mask;
      auto named = [=](const Fiber& other) { return mask >> (&other - begin) & 1; };
      auto absent = [=](const Fiber& other) {
        return named(other) && other.state != done && !(other.state == at_warp && other.mask == mask);
      };
      if (!named(*fiber)) return fault("a thread is at a warp's barrier whose mask does not name it"), false;
      if (std::any_of(begin, end, absent)) continue;
      for (Fiber* other = begin; other < end; ++other)
        if (named(*other) && other->state == at_warp) other->state = ready;
      released = true;
    }
    return released;
  }

  // Runs a warp until its threads are done or wait for more than the warp, or all that still run have yielded.
  void run_warp(unsigned warp) {
    size_t first = size_t(WARP) * warp, lanes = std::min(size_t(WARP), block->fibers.size() - first);
    Fiber* begin = &block->fibers[first];
    for (unsigned rounds = hc_state.order == shuffled ? 1 + random_below(8) : ~0u; error == SUCCESS && rounds; --rounds) {
      bool moved = false;
      for (unsigned lane : arranged(lanes)) {
        fiber = begin + lane;
        if (fiber->state != ready && fiber->state != yielded) continue;
        hc_threadIdx = index_of(first + lane, launch.block);
        hc_switch(&scheduler, fiber->stack_pointer);
        if (memcmp(fiber->stack.get(), &CANARY, sizeof CANARY))
          return fault("a thread has more than %zu KiB of local memory", STACK >> 10);
        moved |= fiber->state != yielded;
        idle = fiber->state == yielded ? idle + 1 : 0;
      }
      if (!release_warp(begin, begin + lanes) && !moved) return;
    }
  }

  // Lets the block's barrier go where all its threads are at it; whether it did, or failed.
  bool release_block() {
    std::set<int> lines;
    for (const Fiber& one : block->fibers)
      if (one.state == at_block) lines.insert(one.line);
    size_t waiting = block->count(at_block), running = block->fibers.size() - block->count(done);
    if (!waiting) return false;
    if (waiting < running)
      fault("__syncthreads() of line %d is reached by %zu of %zu threads", *lines.begin(), waiting, running);
    else if (lines.size() > 1)
      fault("threads wait at different __syncthreads(), of lines %d and %d", *lines.begin(), *lines.rbegin());
    else
      block->release(at_block);
    return true;
  }

  // Runs a block until its threads are done or wait for the grid, or all that still run have yielded.
  void advance() {
    hc_blockIdx = block->index;
    hc_dynamic_shared = block->dynamic_shared.data();
    std::copy(block->static_shared.begin(), block->static_shared.end(), launch.kernel.shared_begin);
    for (bool on = true; on && error == SUCCESS;) {
      for (unsigned warp : arranged(block->slow.size()))
        if (!block->slow[warp] || random_below(16) == 0) run_warp(warp);
      bool unfinished = block->count(ready);
      if (unfinished && hc_state.order == shuffled && random_below(2)) break;  // other blocks come in between
      if (error != SUCCESS || unfinished) continue;
      if (block->count(at_warp)) fault("a warp's barrier is not reached by all threads of its mask");
      else on = !block->count(yielded) && release_block();
    }
    std::copy(launch.kernel.shared_begin, launch.kernel.shared_end, block->static_shared.begin());
  }

  // Whether the block is done; where it is, what it had is given back.
  bool finish() {
    if (block->count(done) < block->fibers.size()) return false;
    auto behind = block->dynamic_shared.begin() + launch.dynamic_shared;
    if (std::any_of(behind, block->dynamic_shared.end(), [](char byte) { return byte != POISON; }))
      fault("it writes behind its %u bytes of shared memory", launch.dynamic_shared);
    for (Fiber& one : block->fibers) free_stacks.push_back(std::move(one.stack));
    return true;
  }
};

Grid* grid = nullptr;

void begin_thread() { grid->thread(); }

// No thread waits for another.
void run_plain(const Launch& launch) {
  std::vector<unsigned> threads = arranged(launch.threads());
  for (unsigned number : arranged(launch.blocks())) {
    hc_blockIdx = index_of(number, launch.grid);
    for (unsigned thread : threads) {
      hc_threadIdx = index_of(thread, launch.block);
      launch.kernel.call(launch.arguments);
    }
  }
}

}  // namespace

unsigned blocks_per_multiprocessor(unsigned threads, size_t shared) {
  constexpr size_t reserved = 1 << 10;  // a block's own, of the system
  size_t by_threads = THREADS_PER_MULTIPROCESSOR / ((threads + WARP - 1) / WARP * WARP);
  size_t by_shared = SHARED_PER_MULTIPROCESSOR / (shared + reserved);
  return unsigned(std::min({by_threads, by_shared, size_t(BLOCKS_PER_MULTIPROCESSOR)}));
}

Error run(const Launch& launch) {
  hc_gridDim = launch.grid;
  hc_blockDim = launch.block;
  generator.seed(unsigned(hc_state.seed * 7919 + hc_state.turn++));
  unsigned before = _mm_getcsr();
  constexpr unsigned flush_results = 1 << 15, flush_operands = 1 << 6;
  if (launch.kernel.flush) _mm_setcsr(before | flush_results | flush_operands);
  Error error = SUCCESS;
  Grid own{launch};
  grid = &own;
  if (sigsetjmp(watch_faults(), 1))
    error = fail(ILLEGAL_ADDRESS, "kernel %s, block (%u, %u, %u), thread (%u, %u, %u): %s", launch.kernel.name,
                 hc_blockIdx.x, hc_blockIdx.y, hc_blockIdx.z, hc_threadIdx.x, hc_threadIdx.y, hc_threadIdx.z,
                 described(fault_address()).c_str());
  else if (launch.kernel.fibers)
    error = own.run();
  else
    run_plain(launch);
  unwatch_faults();
  _mm_setcsr(before);
  return error;
}

}  // namespace hostcuda

// What kernels call; include/device.h has the declarations.
using namespace hostcuda;
extern "C" {
void hc_sync_warp(unsigned mask) { grid->wait(at_warp, mask); }
void hc_sync_block(int line) { grid->wait(at_block, 0, line); }
void hc_sync_grid() { grid->wait(at_grid); }
void hc_yield() { grid->wait(yielded); }
char* hc_exchange() { return grid->block->exchange.data(); }
}
