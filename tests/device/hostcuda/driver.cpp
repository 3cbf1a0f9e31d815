// libcuda.so.1, as much of it as CuPy calls: modules are shared objects of the host, made by compiler.py.
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <mutex>

#include "common.h"

using namespace hostcuda;

namespace {

// What stands before the shared object in an image; compiler.py packs it.
struct Head {
  char mark[8];
  uint32_t fibers, flush;
  uint64_t size;
};

struct Module {
  void* object;
  Head head;
};

int context;  // its address is the one context's handle
std::mutex one_kernel_at_a_time;

int launch(const Launch& asked) {
  std::lock_guard<std::mutex> lock(one_kernel_at_a_time);
  const Kernel& kernel = asked.kernel;
  ++hc_state.kernels;
  unsigned threads = asked.threads();
  if (!threads || threads > THREADS_PER_BLOCK || !asked.blocks())
    return fail(INVALID_VALUE, "kernel %s: %u threads in each of %lu blocks", kernel.name, threads, asked.blocks());
  if (asked.dynamic_shared > kernel.dynamic_limit)
    return fail(INVALID_VALUE, "kernel %s: %u bytes of dynamic shared memory; allowed: %ld (attribute "
                "max_dynamic_shared_size_bytes)", kernel.name, asked.dynamic_shared, kernel.dynamic_limit);
  if (!blocks_per_multiprocessor(threads, asked.shared()))
    return fail(INVALID_VALUE, "kernel %s: too much shared memory", kernel.name);
  return run(asked);
}

template <class T> T symbol(void* object, const std::string& name) {
  return reinterpret_cast<T>(dlsym(object, name.c_str()));
}

// Gives a value, where there is one.
template <class T> int give(T* to, T value) { return *to = value, SUCCESS; }

}  // namespace

extern "C" {

int cuInit(unsigned) { return SUCCESS; }
int cuDriverGetVersion(int* version) { return give(version, HC_CUDA_VERSION); }
int cuGetErrorName(int error, const char** name) {
#define HC_NAMED(NAME, NUMBER) if (error == NUMBER) return give<const char*>(name, "CUDA_ERROR_" #NAME);
  HC_ERRORS(HC_NAMED)
  return give<const char*>(name, "CUDA_ERROR_UNKNOWN");
}
int cuGetErrorString(int, const char** text) { return give(text, last_message()); }

int cuCtxGetCurrent(void** current) { return give<void*>(current, &context); }
int cuCtxSetCurrent(void*) { return SUCCESS; }
int cuCtxCreate_v2(void** made, unsigned, int) { return give<void*>(made, &context); }
int cuCtxDestroy_v2(void*) { return SUCCESS; }
int cuCtxGetDevice(int* device) { return give(device, 0); }
int cuDevicePrimaryCtxRelease_v2(int) { return SUCCESS; }
int cuStreamGetCtx(void*, void** current) { return give<void*>(current, &context); }

int cuModuleLoadData(Module** made, const void* image) {
  auto module = new Module;
  memcpy(&module->head, image, sizeof module->head);
  if (memcmp(module->head.mark, "HOSTCUDA", 8)) return fail(INVALID_IMAGE, "an image that is not the host device's");
  char path[] = "/tmp/hostcuda-XXXXXX";  // a name of its own each time: dlopen keeps what it knows by name
  int file = mkstemp(path);
  const char* from = static_cast<const char*>(image) + sizeof(Head);
  bool written = file >= 0 && write(file, from, module->head.size) == ssize_t(module->head.size);
  if (file >= 0) close(file);
  module->object = written ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
  unlink(path);
  if (!module->object) return fail(INVALID_IMAGE, "%s", written ? dlerror() : "the image cannot be written to /tmp");
  return give(made, module);
}
int cuModuleUnload(void*) { return SUCCESS; }
int cuModuleGetFunction(Kernel** made, Module* module, const char* name) {
  auto [object, head] = *module;
  auto call = symbol<void (*)(void**)>(object, std::string("hc_launch_") + name);
  if (!call) return fail(NOT_FOUND, "named symbol not found: %s", name);
  char **begin = symbol<char**>(object, "hc_shared_begin"), **end = symbol<char**>(object, "hc_shared_end");
  *made = new Kernel{strdup(name), call, bool(head.fibers), bool(head.flush), *begin, *end, SHARED_WITHOUT_ASKING};
  return SUCCESS;
}
int cuModuleGetGlobal_v2(void** pointer, size_t* size, Module* module, const char* name) {
  *pointer = dlsym(module->object, name);
  if (!*pointer) return fail(NOT_FOUND, "named symbol not found: %s", name);
  Dl_info info;
  ElfW(Sym)* entry = nullptr;
  dladdr1(*pointer, &info, reinterpret_cast<void**>(&entry), RTLD_DL_SYMENT);
  return give<size_t>(size, entry ? entry->st_size : 0);
}

int cuLaunchKernel(Kernel* kernel, unsigned gx, unsigned gy, unsigned gz, unsigned x, unsigned y, unsigned z,
                   unsigned shared, void*, void** arguments, void**) {
  return launch({*kernel, {gx, gy, gz}, {x, y, z}, shared, arguments, false});
}
int cuLaunchCooperativeKernel(Kernel* kernel, unsigned gx, unsigned gy, unsigned gz, unsigned x, unsigned y, unsigned z,
                              unsigned shared, void*, void** arguments) {
  return launch({*kernel, {gx, gy, gz}, {x, y, z}, shared, arguments, true});
}

enum { max_threads_per_block = 0, shared_size = 1, max_dynamic_shared = 8 };

int cuFuncGetAttribute(int* value, int attribute, Kernel* kernel) {
  *value = 0;
  if (attribute == max_threads_per_block) *value = THREADS_PER_BLOCK;
  if (attribute == shared_size) *value = int(kernel->static_shared());
  if (attribute == max_dynamic_shared) *value = int(kernel->dynamic_limit);
  return SUCCESS;
}
int cuFuncSetAttribute(Kernel* kernel, int attribute, int value) {
  if (attribute != max_dynamic_shared) return SUCCESS;
  int64_t allowed = SHARED_PER_BLOCK - int64_t(kernel->static_shared());
  if (value < 0 || value > allowed)
    return fail(INVALID_VALUE, "kernel %s: %d bytes of dynamic shared memory; allowed: 0 to %ld", kernel->name, value,
                allowed);
  return give<int64_t>(&kernel->dynamic_limit, value);
}
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, Kernel* kernel, int threads, size_t dynamic_shared) {
  return give<int>(blocks, blocks_per_multiprocessor(threads, kernel->static_shared() + dynamic_shared));
}
int cuOccupancyMaxPotentialBlockSize(int* blocks, int* threads, void*, void*, size_t, int) {
  *blocks = 2 * MULTIPROCESSORS;
  return give<int>(threads, THREADS_PER_BLOCK);
}

}  // extern "C"
