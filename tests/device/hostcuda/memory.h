// The device's memory, whose allocations have pages around them that nobody may touch, and what is told of faults.
#pragma once
#include <setjmp.h>

#include "state.h"

namespace hostcuda {

// Fresh memory is NaN; null where there is no more.
void* allocate(size_t size);
// Whether there was such an allocation.
bool release(void* pointer);

// Looks at the bytes next to every allocation that no page guards; `not_found` where none was written to.
Error overrun();

// From here to unwatch_faults a fault jumps back to `if (sigsetjmp(watch_faults(), 1))`.
sigjmp_buf& watch_faults();
void unwatch_faults();
const void* fault_address();
// Which allocation an address belongs to or lies next to, in words.
void describe(const void* address, char* text, size_t size);

}  // namespace hostcuda
