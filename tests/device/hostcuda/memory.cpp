// An allocation is pages of its own, between two pages that nobody may touch.  It ends with them, but for less than 16
// bytes, which keep it aligned; so an index too large is a fault at once, one below 0 where it leaves the first page.
// What lies between is known bytes, which are looked at when the host waits and when the memory is given back.  All of
// them lie in one stretch of addresses, none of which is used twice: what is freed is a fault too.
#include "common.h"

#include <signal.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <map>
#include <sstream>

hc_State hc_state = {};

namespace hostcuda {
namespace {

constexpr size_t PAGE = 4096, ALIGNMENT = 16, LOOKED_AT = 64, ADDRESSES = size_t(1) << 44;
constexpr int UNUSED = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

char* const addresses = static_cast<char*>(mmap(nullptr, ADDRESSES, PROT_NONE, UNUSED, -1, 0));
size_t used = 0;  // of them
std::map<char*, size_t> allocations;
std::string message, overwritten;
struct sigaction earlier_segv, earlier_bus;
sigjmp_buf back;
const void* volatile faulted;

size_t up(size_t size, size_t unit) { return (size + unit - 1) / unit * unit; }
size_t pages(size_t size) { return up(std::max(size, size_t(1)), PAGE); }
// The distance from the guarding page below to the allocation.
size_t before(size_t size) { return pages(size) - up(size, ALIGNMENT); }

// Looks at the known bytes between begin and end, next to an allocation; what was written there is told once.
void look(char* begin, char* end, size_t size) {
  if (std::all_of(begin, end, [](char byte) { return byte == POISON; })) return;
  std::fill(begin, end, POISON);
  overwritten = "the bytes next to an allocation of " + std::to_string(size) + " bytes were written to";
}

void look_around(char* memory, size_t size) {
  look(memory - std::min(before(size), LOOKED_AT), memory, size);
  look(memory + size, memory + up(size, ALIGNMENT), size);
}

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
  size_t own = pages(size);
  if (hc_state.allocated + int64_t(size) > hc_state.memory || ADDRESSES - used < own + 2 * PAGE) return nullptr;
  char* first = addresses + used + PAGE;
  if (mprotect(first, own, PROT_READ | PROT_WRITE)) return nullptr;
  used += PAGE + own;
  memset(first, POISON, own);
  hc_state.allocated += int64_t(size);
  allocations[first + before(size)] = size;
  return first + before(size);
}

bool release(void* pointer) {
  auto found = allocations.find(static_cast<char*>(pointer));
  if (found == allocations.end()) return false;
  auto [memory, size] = *found;
  look_around(memory, size);
  hc_state.allocated -= int64_t(size);
  mmap(memory - before(size), pages(size), PROT_NONE, UNUSED | MAP_FIXED, -1, 0);
  allocations.erase(found);
  return true;
}

Error overrun() {
  for (auto [memory, size] : allocations) look_around(memory, size);
  std::string what;
  what.swap(overwritten);
  return what.empty() ? SUCCESS : fail(ILLEGAL_ADDRESS, "%s", what.c_str());
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

const void* fault_address() { return faulted; }

std::string described(const void* address) {
  auto at = static_cast<const char*>(address);
  std::ostringstream text;
  for (auto [memory, size] : allocations) {
    bool is_before = at >= memory - before(size) - PAGE && at < memory;
    if (!is_before && (at < memory + size || at >= memory + up(size, ALIGNMENT) + PAGE)) continue;
    text << (is_before ? memory - at : at - memory - size) << (is_before ? " bytes before" : " bytes behind");
    text << " an allocation of " << size << " bytes";
    return text.str();
  }
  if (at >= addresses && at < addresses + used) return "freed memory";
  text << "address " << address << ", which is no memory";
  return text.str();
}

}  // namespace hostcuda
