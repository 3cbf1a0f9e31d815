// libcuda.so.1, as much of it as CuPy calls: modules are shared objects of the host, made by compiler.py.
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "memory.h"
#include "scheduler.h"

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

Error launch(const Launch& asked) {
  std::lock_guard<std::mutex> lock(one_kernel_at_a_time);
  const Kernel& kernel = *asked.kernel;
  ++hc_state.kernels;
  unsigned threads = asked.threads();
  if (!threads || threads > THREADS_PER_BLOCK || !asked.blocks())
    return fail(invalid_value, "kernel %s: %u threads in each of %lu blocks", kernel.name, threads, asked.blocks());
  if (asked.dynamic_shared > kernel.dynamic_limit)
    return fail(invalid_value, "kernel %s: %u bytes of dynamic shared memory; allowed: %ld (attribute "
                "max_dynamic_shared_size_bytes)", kernel.name, asked.dynamic_shared, kernel.dynamic_limit);
  if (!blocks_per_multiprocessor(threads, asked.static_shared() + asked.dynamic_shared))
    return fail(invalid_value, "kernel %s: too much shared memory", kernel.name);
  return hc_state.executed ? run(asked) : success;
}

template <class T> T symbol(void* object, const std::string& name) {
  return reinterpret_cast<T>(dlsym(object, name.c_str()));
}

}  // namespace

extern "C" {

int cuInit(unsigned) { return success; }
int cuDriverGetVersion(int* version) { return *version = HC_CUDA_VERSION, success; }
int cuGetErrorName(int error, const char** name) {
  static const std::map<int, const char*> names = {
      {success, "CUDA_SUCCESS"}, {invalid_value, "CUDA_ERROR_INVALID_VALUE"}, {not_found, "CUDA_ERROR_NOT_FOUND"},
      {invalid_image, "CUDA_ERROR_INVALID_IMAGE"}, {illegal_address, "CUDA_ERROR_ILLEGAL_ADDRESS"},
      {launch_failed, "CUDA_ERROR_LAUNCH_FAILED"},
      {cooperative_launch_too_large, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE"}};
  auto found = names.find(error);
  return *name = found == names.end() ? "CUDA_ERROR_UNKNOWN" : found->second, success;
}
int cuGetErrorString(int, const char** text) { return *text = last_message(), success; }

int cuCtxGetCurrent(void** current) { return *current = &context, success; }
int cuCtxSetCurrent(void*) { return success; }
int cuCtxCreate_v2(void** made, unsigned, int) { return *made = &context, success; }
int cuCtxDestroy_v2(void*) { return success; }
int cuCtxGetDevice(int* device) { return *device = 0, success; }
int cuDevicePrimaryCtxRelease_v2(int) { return success; }
int cuStreamGetCtx(void*, void** current) { return *current = &context, success; }

int cuModuleLoadData(void** made, const void* image) {
  auto module = new Module;
  memcpy(&module->head, image, sizeof module->head);
  if (memcmp(module->head.mark, "HOSTCUDA", 8)) return fail(invalid_image, "an image that is not the host device's");
  char path[] = "/tmp/hostcuda-XXXXXX";  // a name of its own each time: dlopen keeps what it knows by name
  int file = mkstemp(path);
  const char* from = static_cast<const char*>(image) + sizeof(Head);
  bool written = file >= 0 && write(file, from, module->head.size) == ssize_t(module->head.size);
  if (file >= 0) close(file);
  module->object = written ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
  unlink(path);
  if (!module->object) return fail(invalid_image, "%s", written ? dlerror() : "the image cannot be written to /tmp");
  *made = module;
  return success;
}
int cuModuleUnload(void*) { return success; }
int cuModuleGetFunction(void** made, void* module, const char* name) {
  auto [object, head] = *static_cast<Module*>(module);
  auto call = symbol<void (*)(void**)>(object, std::string("hc_launch_") + name);
  if (!call) return fail(not_found, "named symbol not found: %s", name);
  char **begin = symbol<char**>(object, "hc_shared_begin"), **end = symbol<char**>(object, "hc_shared_end");
  *made = new Kernel{strdup(name), call, bool(head.fibers), bool(head.flush), *begin, *end, SHARED_WITHOUT_ASKING};
  return success;
}
int cuModuleGetGlobal_v2(void** pointer, size_t* size, void* module, const char* name) {
  *pointer = dlsym(static_cast<Module*>(module)->object, name);
  if (!*pointer) return fail(not_found, "named symbol not found: %s", name);
  Dl_info info;
  ElfW(Sym)* entry = nullptr;
  dladdr1(*pointer, &info, reinterpret_cast<void**>(&entry), RTLD_DL_SYMENT);
  *size = entry ? entry->st_size : 0;
  return success;
}

int cuLaunchKernel(void* kernel, unsigned gx, unsigned gy, unsigned gz, unsigned x, unsigned y, unsigned z,
                   unsigned shared, void*, void** arguments, void**) {
  return launch({static_cast<Kernel*>(kernel), {gx, gy, gz}, {x, y, z}, shared, arguments, false});
}
int cuLaunchCooperativeKernel(void* kernel, unsigned gx, unsigned gy, unsigned gz, unsigned x, unsigned y, unsigned z,
                              unsigned shared, void*, void** arguments) {
  return launch({static_cast<Kernel*>(kernel), {gx, gy, gz}, {x, y, z}, shared, arguments, true});
}

enum { max_threads_per_block = 0, shared_size = 1, max_dynamic_shared = 8 };

int cuFuncGetAttribute(int* value, int attribute, void* function) {
  auto& kernel = *static_cast<Kernel*>(function);
  *value = 0;
  if (attribute == max_threads_per_block) *value = THREADS_PER_BLOCK;
  if (attribute == shared_size) *value = int(kernel.shared_end - kernel.shared_begin);
  if (attribute == max_dynamic_shared) *value = int(kernel.dynamic_limit);
  return success;
}
int cuFuncSetAttribute(void* function, int attribute, int value) {
  auto& kernel = *static_cast<Kernel*>(function);
  if (attribute != max_dynamic_shared) return success;
  int64_t allowed = SHARED_PER_BLOCK - (kernel.shared_end - kernel.shared_begin);
  if (value < 0 || value > allowed) return fail(invalid_value, "kernel %s: %d bytes of dynamic shared memory; allowed: "
                                                "0 to %ld", kernel.name, value, allowed);
  return kernel.dynamic_limit = value, success;
}
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void* function, int threads, size_t dynamic_shared) {
  auto& kernel = *static_cast<Kernel*>(function);
  *blocks = int(blocks_per_multiprocessor(threads, kernel.shared_end - kernel.shared_begin + dynamic_shared));
  return success;
}
int cuOccupancyMaxPotentialBlockSize(int* blocks, int* threads, void*, void*, size_t, int) {
  *blocks = 2 * MULTIPROCESSORS;
  *threads = THREADS_PER_BLOCK;
  return success;
}

}  // extern "C"
