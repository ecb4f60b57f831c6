// The functions of the CUDA driver API and of cuBLAS that kvlab calls, over emulated kernels. Built by build.ts.
// The header must come first: it defines the CUDA language.
#include "cuda-emulator.h"
// The kernels of the engine.
#include "kernels.cu"

#include <mutex>

#include "kernel-table.h"
#include "memory.h"
#include "streams.h"

using namespace emulator;

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using Address = unsigned long long;

size_t memoryLimit() {
  const char* bytes = getenv("KVLAB_EMULATOR_BYTES");
  return bytes ? strtoull(bytes, nullptr, 10) : size_t{4} << 30;
}

/** Engines may run in several threads of a process; calls of all of them are executed one at a time. */
std::recursive_mutex mutex;
Memory device(memoryLimit());
Memory pinned(~size_t{0});
Stream legacyStream;
std::vector<Stream*> streams;

std::map<std::string, Kernel>& kernels() {
  static std::map<std::string, Kernel> table = {
#define KERNEL(name, threads) {#name, kernelOf(#name, threads, name)},
#include "kernel-list.inc"
#undef KERNEL
  };
  return table;
}

#define LOCK                                       \
  std::lock_guard<std::recursive_mutex> lock(mutex); \
  if (stickyError) return stickyError

template <class T>
T* at(Address address) {
  return reinterpret_cast<T*>(static_cast<uintptr_t>(address));
}

Stream& streamOf(Stream* stream) { return stream ? *stream : legacyStream; }

bool isCapturing() {
  for (Stream* stream : streams)
    if (stream->capture && !stream->relaxedCapture) return true;
  return false;
}

/** A call of the legacy stream executes the work of all blocking streams first. */
int executeBlocking() {
  if (isCapturing()) return captureImplicit;
  for (Stream* stream : streams)
    if (!stream->nonBlocking) execute(*stream);
  return execute(legacyStream);
}

int executeAll() {
  if (isCapturing()) return captureUnsupported;
  for (Stream* stream : streams) execute(*stream);
  return execute(legacyStream);
}

int submit(Stream* stream, Work work) {
  if (stream) return enqueue(*stream, std::move(work));
  if (int code = executeBlocking()) return code;
  return enqueue(legacyStream, std::move(work));
}

bool isDevice(const void* address, size_t bytes) {
  return device.contains(address, bytes) || pinned.contains(address, bytes);
}

int copyNow(void* to, const void* from, size_t bytes) {
  if (int code = executeBlocking()) return code;
  memmove(to, from, bytes);
  return ok;
}

template <class T>
int fill(Address to, T value, size_t count, Stream* stream) {
  if (!isDevice(at<void>(to), count * sizeof(T))) return invalidValue;
  return submit(stream, [=] {
    for (size_t i = 0; i < count; i++) at<T>(to)[i] = value;
    return ok;
  });
}

int setSeed() {
  const char* seed = getenv("KVLAB_EMULATOR_SEED");
  block.reseed(seed ? static_cast<uint32_t>(strtoul(seed, nullptr, 10)) : 0);
  return ok;
}

}  // namespace

// Devices and contexts

/** KVLAB_EMULATOR_DEVICES=0: as a driver without a device. */
bool hasDevice() {
  const char* devices = getenv("KVLAB_EMULATOR_DEVICES");
  return !devices || strcmp(devices, "0") != 0;
}

EXPORT int cuInit(unsigned) { return hasDevice() ? setSeed() : 100; }
EXPORT int cuDriverGetVersion(int* version) {
  *version = 13000;
  return ok;
}
EXPORT int cuDeviceGetCount(int* count) {
  *count = 1;
  return ok;
}
EXPORT int cuDeviceGet(int* one, int ordinal) {
  *one = ordinal;
  return ordinal == 0 ? 0 : 101;
}
EXPORT int cuDeviceGetName(char* name, int bytes, int) {
  snprintf(name, static_cast<size_t>(bytes), "CPU emulation");
  return ok;
}
EXPORT int cuDeviceTotalMem_v2(size_t* bytes, int) {
  *bytes = device.limit();
  return ok;
}
EXPORT int cuDeviceGetAttribute(int* value, int attribute, int) {
  // Numbers of CUdevice_attribute, with the values of an H200.
  static const std::map<int, int> values = {
      {1, 1024},      // MAX_THREADS_PER_BLOCK
      {2, 1024},      // MAX_BLOCK_DIM_X
      {3, 1024},      // MAX_BLOCK_DIM_Y
      {4, 64},        // MAX_BLOCK_DIM_Z
      {5, 0x7fffffff},  // MAX_GRID_DIM_X
      {6, 65535},     // MAX_GRID_DIM_Y
      {7, 65535},     // MAX_GRID_DIM_Z
      {8, 49152},     // MAX_SHARED_MEMORY_PER_BLOCK
      {10, 32},       // WARP_SIZE
      {12, 65536},    // MAX_REGISTERS_PER_BLOCK
      {13, 1980000},  // CLOCK_RATE, kHz
      {16, 132},      // MULTIPROCESSOR_COUNT
      {36, 3201000},  // MEMORY_CLOCK_RATE, kHz
      {37, 6144},     // GLOBAL_MEMORY_BUS_WIDTH, bits
      {38, 62914560},  // L2_CACHE_SIZE
      {39, 2048},     // MAX_THREADS_PER_MULTIPROCESSOR
      {40, 3},        // ASYNC_ENGINE_COUNT
      {41, 1},        // UNIFIED_ADDRESSING
      {75, 9},        // COMPUTE_CAPABILITY_MAJOR
      {76, 0},        // COMPUTE_CAPABILITY_MINOR
      {81, 233472},   // MAX_SHARED_MEMORY_PER_MULTIPROCESSOR
      {82, 65536},    // MAX_REGISTERS_PER_MULTIPROCESSOR
      {97, 232448},   // MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
      {106, 32},      // MAX_BLOCKS_PER_MULTIPROCESSOR
  };
  auto found = values.find(attribute);
  *value = found == values.end() ? 0 : found->second;
  return ok;
}
EXPORT int cuDevicePrimaryCtxRetain(void** context, int) {
  *context = &device;
  return setSeed();
}
EXPORT int cuDevicePrimaryCtxRelease_v2(int) { return ok; }
EXPORT int cuDevicePrimaryCtxSetFlags_v2(int, unsigned) { return ok; }
EXPORT int cuCtxSetCurrent(void*) { return ok; }
EXPORT int cuCtxGetCurrent(void** context) {
  *context = &device;
  return ok;
}
EXPORT int cuCtxSynchronize() {
  LOCK;
  return executeAll();
}

EXPORT int cuGetErrorName(int code, const char** name) {
  static const std::map<int, const char*> names = {
      {ok, "CUDA_SUCCESS"},
      {invalidValue, "CUDA_ERROR_INVALID_VALUE"},
      {outOfMemory, "CUDA_ERROR_OUT_OF_MEMORY"},
      {100, "CUDA_ERROR_NO_DEVICE"},
      {101, "CUDA_ERROR_INVALID_DEVICE"},
      {200, "CUDA_ERROR_INVALID_IMAGE"},
      {invalidHandle, "CUDA_ERROR_INVALID_HANDLE"},
      {notFound, "CUDA_ERROR_NOT_FOUND"},
      {notReady, "CUDA_ERROR_NOT_READY"},
      {launchFailed, "CUDA_ERROR_LAUNCH_FAILED"},
      {captureUnsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
      {captureUnmatched, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED"},
      {captureImplicit, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"},
  };
  auto found = names.find(code);
  *name = found == names.end() ? nullptr : found->second;
  return *name ? ok : invalidValue;
}
EXPORT int cuGetErrorString(int code, const char** text) { return cuGetErrorName(code, text); }

// Modules and kernels

EXPORT int cuModuleLoadData(void** module, const void* image) {
  if (!image) return 200;
  *module = &kernels();
  return ok;
}
EXPORT int cuModuleLoadDataEx(void** module, const void* image, unsigned, int*, void**) {
  return cuModuleLoadData(module, image);
}
EXPORT int cuModuleUnload(void*) { return ok; }
EXPORT int cuModuleGetFunction(Kernel** function, void*, const char* name) {
  auto found = kernels().find(name);
  if (found == kernels().end()) return notFound;
  *function = &found->second;
  return ok;
}
EXPORT int cuFuncSetAttribute(Kernel* function, int attribute, int value) {
  if (attribute == 8) {  // MAX_DYNAMIC_SHARED_SIZE_BYTES
    if (value < 0 || value > 232448) return invalidValue;
    function->maxSharedBytes = value;
  }
  return ok;
}
EXPORT int cuFuncGetAttribute(int* value, int attribute, Kernel* function) {
  static const std::map<int, int> values = {{1, 0}, {2, 0}, {3, 0}, {4, 32}, {5, 90}, {6, 90}};
  auto found = values.find(attribute);
  if (attribute == 0) {
    *value = static_cast<int>(function->maxThreads);
  } else if (attribute == 8) {
    *value = function->maxSharedBytes;
  } else if (found != values.end()) {
    *value = found->second;
  } else {
    return invalidValue;
  }
  return ok;
}
EXPORT int cuFuncGetParamInfo(Kernel* function, size_t index, size_t* offset, size_t* bytes) {
  if (index >= function->parameterBytes.size()) return invalidValue;
  size_t next = 0;
  for (size_t i = 0; i <= index; i++) {
    size_t one = function->parameterBytes[i], alignment = one < 8 ? one : 8;
    *offset = (next + alignment - 1) / alignment * alignment;
    next = *offset + one;
  }
  *bytes = function->parameterBytes[index];
  return ok;
}
EXPORT int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, Kernel*, int threads, size_t) {
  *blocks = 2048 / threads;
  return ok;
}
EXPORT int cuLaunchKernel(Kernel* function, unsigned gridX, unsigned gridY, unsigned gridZ, unsigned blockX,
                          unsigned blockY, unsigned blockZ, unsigned sharedBytes, Stream* stream, void** parameters,
                          void**) {
  LOCK;
  unsigned threads = blockX * blockY * blockZ;
  if (!gridX || !gridY || !gridZ || gridY > 65535 || gridZ > 65535 || !threads || threads > function->maxThreads ||
      sharedBytes > static_cast<unsigned>(function->maxSharedBytes)) {
    fprintf(stderr, "CUDA emulation: %s: grid %u, %u, %u, %u threads, %u bytes of shared memory: out of range\n",
            function->name, gridX, gridY, gridZ, threads, sharedBytes);
    return invalidValue;
  }
  Launch launch = {{gridX, gridY, gridZ}, {blockX, blockY, blockZ}, sharedBytes, function->bind(parameters),
                   function->name};
  return submit(stream, [launch] { return runBlocks(launch) ? ok : launchFailed; });
}

// Memory

EXPORT int cuMemGetInfo_v2(size_t* free, size_t* total) {
  LOCK;
  *total = device.limit();
  *free = device.limit() - device.used();
  return ok;
}
EXPORT int cuMemAlloc_v2(Address* address, size_t bytes) {
  LOCK;
  if (isCapturing()) return captureUnsupported;
  if (bytes == 0) return invalidValue;
  void* memory = device.allocate(bytes);
  *address = reinterpret_cast<Address>(memory);
  return memory ? ok : outOfMemory;
}
EXPORT int cuMemFree_v2(Address address) {
  LOCK;
  if (!address) return ok;
  if (int code = executeAll()) return code;
  return device.release(at<void>(address)) ? ok : invalidValue;
}
EXPORT int cuMemHostAlloc(void** address, size_t bytes, unsigned) {
  LOCK;
  *address = pinned.allocate(bytes);
  return *address ? ok : outOfMemory;
}
EXPORT int cuMemAllocHost_v2(void** address, size_t bytes) { return cuMemHostAlloc(address, bytes, 0); }
EXPORT int cuMemFreeHost(void* address) {
  LOCK;
  if (int code = executeAll()) return code;
  return pinned.release(address) ? ok : invalidValue;
}
EXPORT int cuMemHostGetDevicePointer_v2(Address* address, void* host, unsigned) {
  *address = reinterpret_cast<Address>(host);
  return pinned.contains(host, 1) ? ok : invalidValue;
}

EXPORT int cuMemcpyHtoD_v2(Address to, const void* from, size_t bytes) {
  LOCK;
  return isDevice(at<void>(to), bytes) ? copyNow(at<void>(to), from, bytes) : invalidValue;
}
EXPORT int cuMemcpyDtoH_v2(void* to, Address from, size_t bytes) {
  LOCK;
  return isDevice(at<void>(from), bytes) ? copyNow(to, at<void>(from), bytes) : invalidValue;
}
EXPORT int cuMemcpyDtoD_v2(Address to, Address from, size_t bytes) {
  LOCK;
  bool isValid = isDevice(at<void>(to), bytes) && isDevice(at<void>(from), bytes);
  return isValid ? copyNow(at<void>(to), at<void>(from), bytes) : invalidValue;
}
EXPORT int cuMemcpyHtoDAsync_v2(Address to, const void* from, size_t bytes, Stream* stream) {
  LOCK;
  if (!isDevice(at<void>(to), bytes)) return invalidValue;
  if (pinned.contains(from, bytes) || streamOf(stream).capture) {
    return submit(stream, [=] {
      memcpy(at<void>(to), from, bytes);
      return ok;
    });
  }
  // Pageable memory is read before the call returns.
  auto* first = static_cast<const unsigned char*>(from);
  std::vector<unsigned char> copy(first, first + bytes);
  return submit(stream, [=] {
    memcpy(at<void>(to), copy.data(), bytes);
    return ok;
  });
}
EXPORT int cuMemcpyDtoHAsync_v2(void* to, Address from, size_t bytes, Stream* stream) {
  LOCK;
  if (!isDevice(at<void>(from), bytes)) return invalidValue;
  int code = submit(stream, [=] {
    memcpy(to, at<void>(from), bytes);
    return ok;
  });
  if (code || pinned.contains(to, bytes) || streamOf(stream).capture) return code;
  // Pageable memory is written before the call returns.
  return execute(streamOf(stream));
}
EXPORT int cuMemcpyDtoDAsync_v2(Address to, Address from, size_t bytes, Stream* stream) {
  LOCK;
  if (!isDevice(at<void>(to), bytes) || !isDevice(at<void>(from), bytes)) return invalidValue;
  return submit(stream, [=] {
    memmove(at<void>(to), at<void>(from), bytes);
    return ok;
  });
}
EXPORT int cuMemsetD8Async(Address to, unsigned char value, size_t count, Stream* stream) {
  LOCK;
  return fill(to, value, count, stream);
}
EXPORT int cuMemsetD16Async(Address to, unsigned short value, size_t count, Stream* stream) {
  LOCK;
  return fill(to, value, count, stream);
}
EXPORT int cuMemsetD32Async(Address to, unsigned value, size_t count, Stream* stream) {
  LOCK;
  return fill(to, value, count, stream);
}
EXPORT int cuMemsetD8_v2(Address to, unsigned char value, size_t count) {
  return cuMemsetD8Async(to, value, count, nullptr);
}
EXPORT int cuMemsetD16_v2(Address to, unsigned short value, size_t count) {
  return cuMemsetD16Async(to, value, count, nullptr);
}
EXPORT int cuMemsetD32_v2(Address to, unsigned value, size_t count) {
  return cuMemsetD32Async(to, value, count, nullptr);
}

// Streams and events

EXPORT int cuStreamCreate(Stream** stream, unsigned flags) {
  LOCK;
  *stream = new Stream;
  (*stream)->nonBlocking = flags & 1;
  streams.push_back(*stream);
  return ok;
}
EXPORT int cuStreamCreateWithPriority(Stream** stream, unsigned flags, int) { return cuStreamCreate(stream, flags); }
EXPORT int cuStreamDestroy_v2(Stream* stream) {
  LOCK;
  int code = execute(*stream);
  for (size_t i = 0; i < streams.size(); i++)
    if (streams[i] == stream) streams.erase(streams.begin() + static_cast<ptrdiff_t>(i--));
  delete stream;
  return code;
}
EXPORT int cuStreamSynchronize(Stream* stream) {
  LOCK;
  if (isCapturing()) return captureUnsupported;
  return stream ? execute(*stream) : executeBlocking();
}
EXPORT int cuStreamQuery(Stream* stream) {
  LOCK;
  return execute(streamOf(stream));
}
EXPORT int cuStreamWaitEvent(Stream* stream, Event* event, unsigned) {
  LOCK;
  int record = event->enqueued;
  return submit(stream, [=] { return executeUntil(*event, record); });
}
EXPORT int cuEventCreate(Event** event, unsigned) {
  *event = new Event;
  return ok;
}
EXPORT int cuEventDestroy_v2(Event* event) {
  LOCK;
  int code = executeUntil(*event, event->enqueued);
  delete event;
  return code;
}
EXPORT int cuEventRecord(Event* event, Stream* stream) {
  LOCK;
  event->captured = streamOf(stream).capture != nullptr;
  if (event->captured) return ok;
  event->stream = &streamOf(stream);
  event->enqueued++;
  return submit(stream, [=] {
    event->executed++;
    event->time = std::chrono::steady_clock::now();
    return ok;
  });
}
EXPORT int cuEventSynchronize(Event* event) {
  LOCK;
  return event->captured ? captureUnsupported : executeUntil(*event, event->enqueued);
}
EXPORT int cuEventQuery(Event* event) {
  LOCK;
  return executeUntil(*event, event->enqueued);
}
EXPORT int cuEventElapsedTime(float* milliseconds, Event* from, Event* to) {
  LOCK;
  if (from->captured || to->captured || !from->enqueued || !to->enqueued) return invalidHandle;
  if (from->executed < from->enqueued || to->executed < to->enqueued) return notReady;
  *milliseconds = std::chrono::duration<float, std::milli>(to->time - from->time).count();
  return ok;
}
EXPORT int cuEventElapsedTime_v2(float* milliseconds, Event* from, Event* to) {
  return cuEventElapsedTime(milliseconds, from, to);
}

// Graphs

EXPORT int cuStreamBeginCapture_v2(Stream* stream, int mode) {
  LOCK;
  if (!stream) return captureUnsupported;
  if (stream->capture) return invalidValue;
  stream->capture = std::make_shared<Graph>();
  stream->relaxedCapture = mode == 2;
  return ok;
}
EXPORT int cuStreamEndCapture(Stream* stream, std::shared_ptr<Graph>** graph) {
  LOCK;
  if (!stream || !stream->capture) return captureUnmatched;
  *graph = new std::shared_ptr<Graph>(std::move(stream->capture));
  stream->capture = nullptr;
  return ok;
}
EXPORT int cuStreamIsCapturing(Stream* stream, int* status) {
  *status = streamOf(stream).capture ? 1 : 0;
  return ok;
}
EXPORT int cuGraphInstantiateWithFlags(std::shared_ptr<Graph>** executable, std::shared_ptr<Graph>* graph,
                                       unsigned long long) {
  LOCK;
  *executable = new std::shared_ptr<Graph>(*graph);
  return ok;
}
EXPORT int cuGraphUpload(std::shared_ptr<Graph>*, Stream*) { return ok; }
EXPORT int cuGraphLaunch(std::shared_ptr<Graph>* executable, Stream* stream) {
  LOCK;
  return submit(stream, [graph = *executable] {
    for (const Work& node : graph->nodes)
      if (int code = node()) return code;
    return static_cast<int>(ok);
  });
}
EXPORT int cuGraphGetNodes(std::shared_ptr<Graph>* graph, void**, size_t* count) {
  *count = (*graph)->nodes.size();
  return ok;
}
EXPORT int cuGraphExecDestroy(std::shared_ptr<Graph>* executable) {
  delete executable;
  return ok;
}
EXPORT int cuGraphDestroy(std::shared_ptr<Graph>* graph) {
  delete graph;
  return ok;
}

#include "cublas.h"
