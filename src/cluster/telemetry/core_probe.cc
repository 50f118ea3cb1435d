#include "cluster/telemetry/core_probe.h"

#include <fmt/core.h>
#include <sched.h>
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <thread>
#include <vector>

#include "base/rng.h"

namespace hase::cluster::telemetry {
namespace {

constexpr size_t kLine = 64, kBytes = 64u << 20, kLines = kBytes / kLine;
constexpr size_t kChunk = 128u << 10;
constexpr int kRounds = 48, kSteps = 300, kReads = 150;
constexpr long kPauseNs = 2'000'000;
constexpr double kTrim = 0.1;  // of the rounds, the slowest: interrupts

double ThreadNs() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
}

double TrimmedMean(std::vector<double>& values) {
  std::ranges::sort(values);
  const auto kept = static_cast<size_t>(static_cast<double>(values.size()) * (1 - kTrim));
  double sum = 0;
  for (size_t i = 0; i < kept; ++i) sum += values[i];
  return sum / static_cast<double>(kept);
}

// Keeps the compiler from dropping work whose result nobody uses.
template <typename T>
void Keep(T& value) {
  asm volatile("" : "+m"(value) : : "memory");
}

void Arithmetic() {
  std::array<float, 32> sums{};
  sums.fill(1);
  float factor = 0.999f;
  Keep(factor);
  for (int i = 0; i < kSteps; ++i) {
    for (float& s : sums) s = s * factor + factor;
    Keep(sums);
  }
}

}  // namespace

// Each line holds the number of the next in one round trip through all lines in random order.
struct CoreProbe::Buffer {
  unsigned char* bytes = nullptr;
  size_t at = 0;
  uint32_t line = 0;

  Buffer() {
    void* memory =
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return;  // Measure says so
    madvise(memory, kBytes, MADV_HUGEPAGE);
    bytes = static_cast<unsigned char*>(memory);
    std::vector<uint32_t> order(kLines);
    std::iota(order.begin(), order.end(), 0u);
    Rng rng(1);
    for (size_t i = kLines; i-- > 1;) {  // Fisher-Yates
      std::swap(order[i], order[static_cast<size_t>(rng.UniformInt(0, static_cast<int64_t>(i)))]);
    }
    for (size_t i = 0; i < kLines; ++i) Next(order[i]) = order[(i + 1) % kLines];
  }
  ~Buffer() {
    if (bytes != nullptr) munmap(bytes, kBytes);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  uint32_t& Next(uint32_t line_of) {
    return *reinterpret_cast<uint32_t*>(bytes + static_cast<size_t>(line_of) * kLine);
  }
  void Stream() {
    const auto* words = reinterpret_cast<const uint64_t*>(bytes + at);
    uint64_t sum = 0;
    for (size_t i = 0; i < kChunk / 8; ++i) sum += words[i];
    Keep(sum);
    // A step that visits all chunks before it comes back.
    at = (at + 37 * kChunk) % kBytes;
  }
  void Chase() {
    for (int i = 0; i < kReads; ++i) line = Next(line);
    Keep(line);
  }

  ProbeReading Rounds() {
    std::vector<double> compute, stream, latency;
    for (int i = 0; i < kRounds; ++i) {
      const double a = ThreadNs();
      Arithmetic();
      const double b = ThreadNs();
      Stream();
      const double c = ThreadNs();
      Chase();
      const double d = ThreadNs();
      compute.push_back((b - a) / kSteps);
      stream.push_back((c - b) / (kChunk / 1024.0));
      latency.push_back((d - c) / kReads);
      const timespec pause{0, kPauseNs};
      nanosleep(&pause, nullptr);
    }
    return {TrimmedMean(compute), TrimmedMean(stream), TrimmedMean(latency)};
  }
};

CoreProbe::CoreProbe() : buffer_(std::make_unique<Buffer>()) {}
CoreProbe::~CoreProbe() = default;

Result<ProbeReading> CoreProbe::Measure(int core) {
  if (buffer_->bytes == nullptr) {
    return Unavailable(fmt::format("no memory for the probe's {} MiB", kBytes >> 20));
  }
  bool pinned = true;
  ProbeReading reading;
  std::thread thread([&] {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<size_t>(core), &set);
    pinned = sched_setaffinity(0, sizeof(set), &set) == 0;
    if (pinned) reading = buffer_->Rounds();
  });
  thread.join();
  if (!pinned) return Unavailable(fmt::format("the probe may not run on core {}", core));
  return reading;
}

}  // namespace hase::cluster::telemetry
