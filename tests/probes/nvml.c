/* A stand-in for libnvidia-ml.so.1: two made-up GPUs, the second without a power sensor.
   FAKE_NVML chooses what nvmlInit answers and how many devices there are. */
#include <stdlib.h>
#include <string.h>

typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct { unsigned int gpu, memory; } rates_t;

enum { OK = 0, NOT_SUPPORTED = 3, NO_PERMISSION = 4, DRIVER_NOT_LOADED = 9 };
static char first, second;

static int is(const char *what) {
    const char *value = getenv("FAKE_NVML");
    return value && !strcmp(value, what);
}
int nvmlInitWithFlags(unsigned int flags) {
    (void)flags;
    return is("no driver") ? DRIVER_NOT_LOADED : is("no permission") ? NO_PERMISSION : OK;
}
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int code) { return code == NOT_SUPPORTED ? "Not Supported" : "error"; }
int nvmlSystemGetDriverVersion(char *text, unsigned int size) { strncpy(text, "550.54.15", size); return OK; }
int nvmlSystemGetCudaDriverVersion(int *version) { *version = 12040; return OK; }
int nvmlDeviceGetCount_v2(unsigned int *count) { *count = is("no device") ? 0 : 2; return OK; }
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **device) {
    *device = index ? &second : &first;
    return OK;
}
int nvmlDeviceGetName(void *device, char *text, unsigned int size) {
    strncpy(text, device == &first ? "Fake A10" : "Fake T4", size);
    return OK;
}
int nvmlDeviceGetMemoryInfo(void *device, memory_t *memory) {
    (void)device;
    memory->total = 24ULL << 30; memory->used = 6ULL << 30; memory->free = 18ULL << 30;
    return OK;
}
int nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor) {
    *major = device == &first ? 8 : 7; *minor = device == &first ? 6 : 5;
    return OK;
}
int nvmlDeviceGetMigMode(void *device, unsigned int *current, unsigned int *pending) {
    if (device == &second) return NOT_SUPPORTED;
    *current = 1; *pending = 1;
    return OK;
}
int nvmlDeviceGetUtilizationRates(void *device, rates_t *rates) {
    (void)device;
    rates->gpu = 37; rates->memory = 12;
    return OK;
}
int nvmlDeviceGetClockInfo(void *device, int kind, unsigned int *mhz) {
    (void)device;
    *mhz = kind == 1 ? 900 : 1;
    return OK;
}
int nvmlDeviceGetMaxClockInfo(void *device, int kind, unsigned int *mhz) {
    (void)device;
    *mhz = kind == 1 ? 1800 : 1;
    return OK;
}
int nvmlDeviceGetTemperature(void *device, int sensor, unsigned int *celsius) {
    (void)device; (void)sensor;
    *celsius = 83;
    return OK;
}
int nvmlDeviceGetPowerUsage(void *device, unsigned int *milliwatts) {
    if (device == &second) return NOT_SUPPORTED;
    *milliwatts = 149500;
    return OK;
}
int nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned int *milliwatts) {
    (void)device;
    *milliwatts = 150000;
    return OK;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *bits) {
    (void)device;
    *bits = 0x44;
    return OK;
}
