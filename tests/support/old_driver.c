/* An NVML from before nvmlDeviceGetUtilizationRates: what a driver that is too old looks like. */
#include <nvml.h>

nvmlReturn_t nvmlInit_v2(void) { return NVML_SUCCESS; }
nvmlReturn_t nvmlShutdown(void) { return NVML_SUCCESS; }
const char* nvmlErrorString(nvmlReturn_t result) {
  return result == NVML_SUCCESS ? "Success" : "Error";
}
nvmlReturn_t nvmlSystemGetDriverVersion(char* version, unsigned int length) {
  if (length < 4) return NVML_ERROR_INSUFFICIENT_SIZE;
  version[0] = '3', version[1] = '0', version[2] = '4', version[3] = '\0';
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int* count) {
  *count = 1;
  return NVML_SUCCESS;
}
