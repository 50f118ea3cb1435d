// A stand-in for NVIDIA's management library: three cards (a busy T4, an A100 split by MIG, a card
// no catalogue knows). STAND_IN_FAIL=init: the driver does not start; =lost: card 1 fell off the
// bus.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct nvmlDeviceStub {
  const char* name;
  const char* uuid;
  unsigned long long total, free, used;
  int major, minor, mig;
  unsigned gpu, memory, sm_clock, power_mw;
} Card;

#define GIB (1ULL << 30)
static Card cards[3] = {
    {"Tesla T4", "GPU-1", 15 * GIB, 10 * GIB, 4 * GIB, 7, 5, 0, 93, 41, 1395, 68000},
    {"NVIDIA A100-SXM4-80GB", "GPU-2", 80 * GIB, 79 * GIB, 0, 8, 0, 1, 0, 0, 1410, 90000},
    {"NVIDIA Mystery 9000", "GPU-3", 64 * GIB, 63 * GIB, 0, 12, 1, 0, 0, 0, 2000, 50000},
};
static Card migs[2] = {
    {"NVIDIA A100-SXM4-80GB MIG 3g.40gb", "MIG-1", 40 * GIB, 40 * GIB, 0, 8, 0, 0, 0, 0, 1410, 0},
    {"NVIDIA A100-SXM4-80GB MIG 2g.20gb", "MIG-2", 20 * GIB, 20 * GIB, 0, 8, 0, 0, 0, 0, 1410, 0},
};

static int fails(const char* how) {
  const char* wish = getenv("STAND_IN_FAIL");
  return wish && !strcmp(wish, how);
}
int nvmlInit_v2(void) { return fails("init") ? 9 : 0; }
int nvmlShutdown(void) { return 0; }
const char* nvmlErrorString(int code) {
  return code == 9 ? "Driver Not Loaded" : code == 15 ? "GPU is lost" : "Unknown Error";
}
int nvmlSystemGetDriverVersion(char* text, unsigned size) {
  snprintf(text, size, "555.42");
  return 0;
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 3;
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, Card** card) {
  *card = &cards[index];
  return fails("lost") && index == 1 ? 15 : 0;
}
int nvmlDeviceGetName(Card* card, char* text, unsigned size) {
  snprintf(text, size, "%s", card->name);
  return 0;
}
int nvmlDeviceGetUUID(Card* card, char* text, unsigned size) {
  snprintf(text, size, "%s", card->uuid);
  return 0;
}
int nvmlDeviceGetMemoryInfo(Card* card, unsigned long long* info) {
  info[0] = card->total;
  info[1] = card->free;
  info[2] = card->used;
  return 0;
}
int nvmlDeviceGetUtilizationRates(Card* card, unsigned* busy) {
  if (card->mig) return 3;  // not supported under MIG, as the real library answers
  busy[0] = card->gpu;
  busy[1] = card->memory;
  return 0;
}
int nvmlDeviceGetClockInfo(Card* card, int which, unsigned* mhz) {
  *mhz = which == 1 ? card->sm_clock : 5000;
  return 0;
}
int nvmlDeviceGetMaxClockInfo(Card* card, int which, unsigned* mhz) {
  (void)which;
  *mhz = card->sm_clock + 200;
  return 0;
}
int nvmlDeviceGetPowerUsage(Card* card, unsigned* mw) {
  *mw = card->power_mw;
  return 0;
}
int nvmlDeviceGetCudaComputeCapability(Card* card, int* major, int* minor) {
  *major = card->major;
  *minor = card->minor;
  return 0;
}
int nvmlDeviceGetMigMode(Card* card, unsigned* current, unsigned* pending) {
  *current = *pending = (unsigned)card->mig;
  return card->major == 8 ? 0 : 3;
}
int nvmlDeviceGetMaxMigDeviceCount(Card* card, unsigned* count) {
  *count = card->mig ? 7 : 0;
  return 0;
}
int nvmlDeviceGetMigDeviceHandleByIndex(Card* card, unsigned index, Card** instance) {
  (void)card;
  if (index > 1) return 6;  // not found: an empty slot
  *instance = &migs[index];
  return 0;
}
