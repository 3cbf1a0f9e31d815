// Runs a kernel's threads on one thread of the host: one after the other, or, where they wait for each other, as
// fibers.  A fiber runs until it waits at a barrier or yields (atomics, __nanosleep, __threadfence).  A warp runs as
// far as it can before the next one does, and a block before the next block, so that a barrier that is missing shows.
// Blocks that wait for each other stay, as many as the device has room for.
#include "scheduler.h"

#include "memory.h"

#include <setjmp.h>
#include <sys/mman.h>
#include <xmmintrin.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
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
constexpr char POISON = char(0xff);     // a NaN, of either precision

using Random = std::minstd_rand;

enum State { ready, yielded, at_warp, at_block, at_grid, done };

struct Fiber {
  void* stack_pointer;
  char* stack;
  State state;
  unsigned mask;  // of the warp's barrier
  int line;       // of the block's
};

struct Block {
  uint3 index;
  std::vector<Fiber> fibers;
  std::vector<char> static_shared, dynamic_shared, exchange;
  std::vector<bool> slow;  // warps that seldom get their turn, in the shuffled order
};

std::vector<char*> free_stacks;

// One launch of a kernel whose threads are fibers.
class Grid {
 public:
  Grid(const Launch& launch, Random& random) : launch_(launch), kernel_(*launch.kernel), random_(random) {}
  ~Grid();
  Error run();

  void wait(State state, unsigned mask, int line);
  char* exchange() { return block_->exchange.data(); }
  [[noreturn]] void thread();

 private:
  std::unique_ptr<Block> start(uint64_t number);
  void advance(Block& block);
  void run_warp(Block& block, unsigned warp);
  bool release_warp(Block& block, size_t begin, size_t end);
  bool release_block(Block& block);
  bool finish(Block& block);
  template <class... A> void fault(const char* format, A... values);

  const Launch& launch_;
  Kernel& kernel_;
  Random& random_;
  std::vector<std::unique_ptr<Block>> resident_;
  Block* block_ = nullptr;  // that runs
  Fiber* fiber_ = nullptr;
  void* scheduler_ = nullptr;
  int64_t idle_ = 0;
  Error error_ = success;
};

Grid* grid = nullptr;

void set_thread(unsigned number) {
  unsigned x = hc_blockDim.x, y = hc_blockDim.y;
  hc_threadIdx = {number % x, number / x % y, number / (x * y)};
}

uint3 block_index(uint64_t number, dim3 size) {
  return {unsigned(number % size.x), unsigned(number / size.x % size.y), unsigned(number / size.x / size.y)};
}

// 0 ... n - 1 as the device's order has it.
std::vector<unsigned> arranged(size_t n, Random& random) {
  std::vector<unsigned> numbers(n);
  std::iota(numbers.begin(), numbers.end(), 0u);
  if (hc_state.order == reversed) std::reverse(numbers.begin(), numbers.end());
  if (hc_state.order == shuffled) std::shuffle(numbers.begin(), numbers.end(), random);
  return numbers;
}

char* new_stack() {
  if (free_stacks.empty()) {
    constexpr size_t together = 64;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    char* memory = static_cast<char*>(mmap(nullptr, together * STACK, PROT_READ | PROT_WRITE, flags, -1, 0));
    if (memory == MAP_FAILED) abort();
    for (size_t i = 0; i < together; ++i) free_stacks.push_back(memory + i * STACK);
  }
  char* stack = free_stacks.back();
  free_stacks.pop_back();
  return stack;
}

void begin_thread() { grid->thread(); }

Grid::~Grid() {
  for (auto& block : resident_)
    if (block)
      for (Fiber& fiber : block->fibers) free_stacks.push_back(fiber.stack);
}

template <class... A> void Grid::fault(const char* format, A... values) {
  char text[400];
  snprintf(text, sizeof text, format, values...);
  error_ = fail(launch_failed, "kernel %s, block (%u, %u, %u): %s", kernel_.name, hc_blockIdx.x, hc_blockIdx.y,
                hc_blockIdx.z, text);
}

std::unique_ptr<Block> Grid::start(uint64_t number) {
  auto block = std::make_unique<Block>();
  block->index = block_index(number, launch_.grid);
  block->static_shared.assign(launch_.static_shared(), POISON);
  block->dynamic_shared.assign(launch_.dynamic_shared + RED_ZONE, POISON);
  block->exchange.assign(EXCHANGE * (launch_.threads() + WARP), POISON);
  for (unsigned i = 0; i < launch_.threads(); i += WARP)
    block->slow.push_back(hc_state.order == shuffled && random_() % 4 == 0);
  block->fibers.resize(launch_.threads());
  for (Fiber& fiber : block->fibers) {
    fiber.stack = new_stack();
    memcpy(fiber.stack, &CANARY, sizeof CANARY);
    void** top = reinterpret_cast<void**>(fiber.stack + STACK) - 1;  // so that rsp + 8 is a multiple of 16 at entry
    *--top = reinterpret_cast<void*>(begin_thread);
    for (int i = 0; i < 6; ++i) *--top = nullptr;  // the registers that hc_switch takes
    fiber.stack_pointer = top;
    fiber.state = ready;
  }
  return block;
}

void Grid::thread() {
  kernel_.call(launch_.arguments);
  wait(done, 0, 0);
  abort();
}

// Called by a thread: it waits, or is done.
void Grid::wait(State state, unsigned mask, int line) {
  fiber_->state = state;
  fiber_->mask = mask;
  fiber_->line = line;
  hc_switch(&fiber_->stack_pointer, scheduler_);
}

// Lets the barriers of a warp go that have all their threads; whether one did.
bool Grid::release_warp(Block& block, size_t begin, size_t end) {
  bool released = false;
  for (size_t i = begin; i < end; ++i) {
    if (block.fibers[i].state != at_warp) continue;
    unsigned mask = block.fibers[i].mask;
    bool all = true;
    for (size_t j = begin; j < end; ++j) {
      const Fiber& other = block.fibers[j];
      bool there = other.state == done || (other.state == at_warp && other.mask == mask);
      if (mask >> (j - begin) & 1 && !there) all = false;
    }
    if (!(mask >> (i - begin) & 1)) return fault("a thread is at a warp's barrier whose mask does not name it"), false;
    for (size_t j = begin; all && j < end; ++j)
      if (mask >> (j - begin) & 1 && block.fibers[j].state == at_warp) block.fibers[j].state = ready, released = true;
  }
  return released;
}

// Runs a warp until its threads are done or wait for more than the warp, or all that still run have yielded.
void Grid::run_warp(Block& block, unsigned warp) {
  size_t begin = size_t(WARP) * warp, end = std::min(begin + WARP, block.fibers.size());
  for (unsigned rounds = hc_state.order == shuffled ? 1 + random_() % 8 : ~0u; error_ == success && rounds; --rounds) {
    bool moved = false;
    for (unsigned lane : arranged(end - begin, random_)) {
      fiber_ = &block.fibers[begin + lane];
      if (fiber_->state != ready && fiber_->state != yielded) continue;
      set_thread(begin + lane);
      hc_switch(&scheduler_, fiber_->stack_pointer);
      if (memcmp(fiber_->stack, &CANARY, sizeof CANARY))
        return fault("a thread has more than %zu KiB of local memory", STACK >> 10);
      if (fiber_->state == yielded) ++idle_;
      else idle_ = 0, moved = true;
    }
    if (!release_warp(block, begin, end) && !moved) return;
  }
}

// Lets the block's barrier go where all its threads are at it; whether it did, or failed.
bool Grid::release_block(Block& block) {
  size_t waiting = 0, gone = 0;
  int first = 0, last = 0;
  for (const Fiber& fiber : block.fibers) {
    gone += fiber.state == done;
    if (fiber.state != at_block) continue;
    first = waiting++ ? std::min(first, fiber.line) : fiber.line;
    last = std::max(last, fiber.line);
  }
  size_t n = block.fibers.size();
  if (!waiting) return false;
  if (waiting + gone < n)
    fault("__syncthreads() of line %d is reached by %zu of %zu threads", first, waiting, n - gone);
  else if (first != last) fault("threads wait at different __syncthreads(), of lines %d and %d", first, last);
  else for (Fiber& fiber : block.fibers) if (fiber.state == at_block) fiber.state = ready;
  return true;
}

// Runs a block until its threads are done or wait for the grid, or all that still run have yielded.
void Grid::advance(Block& block) {
  block_ = &block;
  hc_blockIdx = block.index;
  hc_dynamic_shared = block.dynamic_shared.data();
  std::copy(block.static_shared.begin(), block.static_shared.end(), kernel_.shared_begin);
  for (bool on = true; on && error_ == success;) {
    for (unsigned warp : arranged(block.slow.size(), random_))
      if (!block.slow[warp] || random_() % 16 == 0) run_warp(block, warp);
    size_t in[done + 1] = {};
    for (const Fiber& fiber : block.fibers) ++in[fiber.state];
    if (in[ready] && hc_state.order == shuffled && random_() % 2) break;  // other blocks come in between
    if (error_ != success || in[ready]) continue;
    if (in[at_warp]) fault("a warp's barrier is not reached by all threads of its mask");
    else on = !in[yielded] && release_block(block);
  }
  std::copy(kernel_.shared_begin, kernel_.shared_end, block.static_shared.begin());
}

// Whether a block is done; where it is, what it had is given back.
bool Grid::finish(Block& block) {
  for (const Fiber& fiber : block.fibers)
    if (fiber.state != done) return false;
  for (size_t i = launch_.dynamic_shared; i < block.dynamic_shared.size(); ++i)
    if (block.dynamic_shared[i] != POISON) {
      fault("it writes behind its %u bytes of shared memory", launch_.dynamic_shared);
      break;
    }
  for (Fiber& fiber : block.fibers) free_stacks.push_back(fiber.stack);
  return true;
}

Error Grid::run() {
  size_t shared = launch_.static_shared() + launch_.dynamic_shared;
  size_t room = size_t(MULTIPROCESSORS) * blocks_per_multiprocessor(launch_.threads(), shared);
  std::vector<unsigned> order = arranged(launch_.blocks(), random_);
  size_t next = 0;
  if (launch_.cooperative && order.size() > room)
    return fail(cooperative_launch_too_large, "kernel %s: %zu blocks; room for %zu", kernel_.name, order.size(), room);
  while (error_ == success && (next < order.size() || !resident_.empty())) {
    size_t waiting = 0, threads = 0;
    for (auto& block : resident_)
      for (Fiber& fiber : block->fibers) waiting += fiber.state == at_grid, threads += fiber.state != done;
    if (waiting && !launch_.cooperative) fault("grid.sync() in a launch that is not cooperative");
    bool stuck = idle_ > int64_t(16 * threads), all = next == order.size();
    if (!all && resident_.size() < room && (launch_.cooperative || stuck || !threads))
      resident_.push_back(start(order[next++]));
    else if (all && waiting == threads)
      for (auto& block : resident_)
        for (Fiber& fiber : block->fibers) fiber.state = fiber.state == at_grid ? ready : fiber.state;
    else if (idle_ > PATIENCE || (!all && resident_.size() == room && idle_ > int64_t(1000 * room)))
      fault("%zu of %zu threads wait for the grid, the others for what does not come", waiting, threads);
    for (unsigned i : arranged(resident_.size(), random_)) {
      if (error_ == success) advance(*resident_[i]);
      if (error_ == success && finish(*resident_[i])) resident_[i].reset();
    }
    resident_.erase(std::remove(resident_.begin(), resident_.end(), nullptr), resident_.end());
  }
  return error_;
}

// No thread waits for another.
void run_plain(const Launch& launch, Random& random) {
  std::vector<unsigned> threads = arranged(launch.threads(), random);
  for (unsigned number : arranged(launch.blocks(), random)) {
    hc_blockIdx = block_index(number, launch.grid);
    for (unsigned thread : threads) {
      set_thread(thread);
      launch.kernel->call(launch.arguments);
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
  Random random(unsigned(hc_state.seed * 7919 + hc_state.turn++));
  unsigned before = _mm_getcsr();
  constexpr unsigned flush_results = 1 << 15, flush_operands = 1 << 6;
  if (launch.kernel->flush) _mm_setcsr(before | flush_results | flush_operands);
  Error error = success;
  Grid own(launch, random);
  grid = &own;
  if (!sigsetjmp(watch_faults(), 1)) {
    if (launch.kernel->fibers) error = own.run();
    else run_plain(launch, random);
  } else {
    char place[200];
    describe(fault_address(), place, sizeof place);
    error = fail(illegal_address, "kernel %s, block (%u, %u, %u), thread (%u, %u, %u): %s", launch.kernel->name,
                 hc_blockIdx.x, hc_blockIdx.y, hc_blockIdx.z, hc_threadIdx.x, hc_threadIdx.y, hc_threadIdx.z, place);
  }
  unwatch_faults();
  grid = nullptr;
  _mm_setcsr(before);
  return error;
}

}  // namespace hostcuda

// What kernels call; device.h has the declarations.
extern "C" {
void hc_sync_warp(unsigned mask) { hostcuda::grid->wait(hostcuda::at_warp, mask, 0); }
void hc_sync_block(int line) { hostcuda::grid->wait(hostcuda::at_block, 0, line); }
void hc_sync_grid() { hostcuda::grid->wait(hostcuda::at_grid, 0, 0); }
void hc_yield() { hostcuda::grid->wait(hostcuda::yielded, 0, 0); }
char* hc_exchange() { return hostcuda::grid->exchange(); }
}
