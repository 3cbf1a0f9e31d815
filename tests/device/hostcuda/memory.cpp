// An allocation is pages of its own, between two pages that nobody may touch.  It ends with them, but for less than 16
// bytes, which keep it aligned; so an index too large is a fault at once, one below 0 where it leaves the first page.
// What lies between is known bytes, which are looked at when the host waits and when the memory is given back.  All of
// them lie in one stretch of addresses, none of which is used twice: what is freed is a fault too.
#include "memory.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>

hc_State hc_state = {};

namespace hostcuda {
namespace {

constexpr size_t PAGE = 4096, ALIGNMENT = 16, LOOKED_AT = 64;
constexpr int UNUSED = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
constexpr char POISON = char(0xff);

constexpr size_t ADDRESSES = size_t(1) << 44;
char *next, *last;  // addresses that are left
std::map<char*, size_t> allocations;
std::string message, released_overrun;

size_t up(size_t size, size_t unit) { return (size + unit - 1) / unit * unit; }

// The distance from the guarding page below to the allocation.
size_t before(size_t size) { return up(std::max(size, size_t(1)), PAGE) - up(size, ALIGNMENT); }

bool intact(char* memory, size_t size) {
  auto poison = [](char byte) { return byte == POISON; };
  return std::all_of(memory - std::min(before(size), LOOKED_AT), memory, poison) &&
         std::all_of(memory + size, memory + up(size, ALIGNMENT), poison);
}

std::string words(size_t size) {
  return "the bytes next to an allocation of " + std::to_string(size) + " bytes were written to";
}

struct sigaction earlier_segv, earlier_bus;
sigjmp_buf back;
volatile const void* faulted;

void on_fault(int, siginfo_t* info, void*) {
  faulted = info->si_addr;
  siglongjmp(back, 1);
}

}  // namespace

Error fail(Error error, const char* format, ...) {
  char text[1000];
  va_list values;
  va_start(values, format);
  vsnprintf(text, sizeof text, format, values);
  va_end(values);
  message = text;
  return error;
}

const char* last_message() { return message.c_str(); }

void* allocate(size_t size) {
  if (hc_state.allocated + int64_t(size) > hc_state.memory) return nullptr;
  size_t pages = up(std::max(size, size_t(1)), PAGE);
  if (!next) {
    void* all = mmap(nullptr, ADDRESSES, PROT_NONE, UNUSED, -1, 0);
    if (all == MAP_FAILED) return nullptr;
    next = static_cast<char*>(all);
    last = next + ADDRESSES;
  }
  if (size_t(last - next) < pages + 2 * PAGE) return nullptr;
  char* first = next + PAGE;
  next = first + pages;
  if (mprotect(first, pages, PROT_READ | PROT_WRITE)) return nullptr;
  memset(first, POISON, pages);
  hc_state.allocated += int64_t(size);
  char* memory = first + before(size);
  allocations[memory] = size;
  return memory;
}

bool release(void* pointer) {
  auto found = allocations.find(static_cast<char*>(pointer));
  if (found == allocations.end()) return false;
  auto [memory, size] = *found;
  if (!intact(memory, size)) released_overrun = words(size);
  hc_state.allocated -= int64_t(size);
  mmap(memory - before(size), up(std::max(size, size_t(1)), PAGE), PROT_NONE, UNUSED | MAP_FIXED, -1, 0);
  allocations.erase(found);
  return true;
}

Error overrun() {
  std::string what;
  released_overrun.swap(what);
  for (auto& [memory, size] : allocations) {
    if (intact(memory, size)) continue;
    what = words(size);
    memset(memory - std::min(before(size), LOOKED_AT), POISON, std::min(before(size), LOOKED_AT));  // told once
    memset(memory + size, POISON, up(size, ALIGNMENT) - size);
  }
  return what.empty() ? success : fail(illegal_address, "%s", what.c_str());
}

sigjmp_buf& watch_faults() {
  static thread_local char stack[64 << 10];  // a thread of a kernel has a small one, which may be what is at fault
  stack_t own = {};
  own.ss_sp = stack;
  own.ss_size = sizeof stack;
  sigaltstack(&own, nullptr);
  struct sigaction action = {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGSEGV, &action, &earlier_segv);
  sigaction(SIGBUS, &action, &earlier_bus);
  return back;
}

void unwatch_faults() {
  sigaction(SIGSEGV, &earlier_segv, nullptr);
  sigaction(SIGBUS, &earlier_bus, nullptr);
}

const void* fault_address() { return const_cast<const void*>(faulted); }

void describe(const void* address, char* text, size_t size) {
  const char* at = static_cast<const char*>(address);
  for (auto& [memory, bytes] : allocations) {
    if (at >= memory - before(bytes) - PAGE && at < memory)
      return void(snprintf(text, size, "%td bytes before an allocation of %zu bytes", memory - at, bytes));
    if (at >= memory + bytes && at < memory + up(bytes, ALIGNMENT) + PAGE)
      return void(snprintf(text, size, "%td bytes behind an allocation of %zu bytes", at - memory - bytes, bytes));
  }
  bool once = at >= last - ADDRESSES && at < next;
  snprintf(text, size, once ? "freed memory" : "address %p, which is no memory", address);
}

}  // namespace hostcuda

// entry.s: a function of NVIDIA's that is not there was called.
extern "C" int hc_missing(const char* name) {
  fprintf(stderr, "hostcuda: %s is not there\n", name);
  return 15;  // "not supported" of cuBLAS; an error of the others too
}
