// hase_stranger: a process that HASE knows nothing of, to try predictions under foreign load with.
// It detaches from whoever starts it (own session, adopted by init), so that neither HASE's process
// tree nor its control groups hold it, prints its process number and works until killed or until
// its time is up.
//
//   compute    multiply-adds in registers
//   bandwidth  c[i] += a[i] over 256 MiB
//   mixed      20 us of one, then 20 us of the other
//   chase      dependent reads and writes all over 128 MiB
//   cache      reads and writes all over 6 MiB, which no core's own cache holds
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

double Clock(clockid_t id) {
  timespec t{};
  clock_gettime(id, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

template <typename T>
void Keep(T& value) {
  asm volatile("" : "+m"(value) : : "memory");
}

class Load {
 public:
  explicit Load(std::string kind) : kind_(std::move(kind)) {
    if (kind_ == "compute") return;
    const size_t bytes = kind_ == "cache" ? 6u << 20 : 128u << 20;
    a_.assign(bytes / sizeof(float), 1);
    if (kind_ == "bandwidth" || kind_ == "mixed") c_ = a_;
  }
  // Some tens of microseconds of work.
  void Step() {
    if (kind_ == "compute") return Compute(2000);
    if (kind_ == "bandwidth") return Stream(64u << 10);
    if (kind_ == "mixed") {
      Compute(2000);
      return Stream(32u << 10);
    }
    Chase(kind_ == "cache" ? 2000 : 300);
  }

 private:
  static void Compute(int steps) {
    std::array<float, 32> sums{};
    float factor = 0.999f;
    Keep(factor);
    for (int i = 0; i < steps; ++i) {
      for (float& s : sums) s = s * factor + factor;
      Keep(sums);
    }
  }
  void Stream(size_t floats) {
    if (at_ + floats > a_.size()) at_ = 0;
    for (size_t i = at_; i < at_ + floats; ++i) c_[i] += a_[i];
    Keep(c_[at_]);
    at_ += floats;
  }
  void Chase(int reads) {
    uint64_t state = at_ * 2 + 1;
    for (int i = 0; i < reads; ++i) {
      state = state * 6364136223846793005ull + 1442695040888963407ull +
              static_cast<uint64_t>(a_[(state >> 33) % a_.size()]);  // the next waits for this one
      a_[(state >> 33) % a_.size()] += 1e-3f;
    }
    at_ = state >> 1;
  }

  std::string kind_;
  std::vector<float> a_, c_;
  size_t at_ = 0;
};

void Work(const std::string& kind, double duty, double period_s, double end) {
  Load load(kind);
  while (Clock(CLOCK_MONOTONIC) < end) {
    const double busy = Clock(CLOCK_THREAD_CPUTIME_ID) + duty * period_s;
    while (Clock(CLOCK_THREAD_CPUTIME_ID) < busy) load.Step();
    if (duty >= 1) continue;
    const timespec pause{0, static_cast<long>((1 - duty) * period_s * 1e9)};
    nanosleep(&pause, nullptr);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 6) {
    std::fprintf(stderr,
                 "usage: hase_stranger compute|bandwidth|mixed|chase|cache DUTY THREADS "
                 "CORE|any SECONDS\n");
    return 2;
  }
  const std::string kind = argv[1], core = argv[4];
  const double duty = std::atof(argv[2]), seconds = std::atof(argv[5]);
  const int threads = std::atoi(argv[3]);
  constexpr std::string_view kKinds[] = {"compute", "bandwidth", "mixed", "chase", "cache"};
  if (std::ranges::find(kKinds, kind) == std::end(kKinds)) {
    std::fprintf(stderr, "hase_stranger: unknown kind %s\n", kind.c_str());
    return 2;
  }
  if (!(duty > 0) || threads < 1 || !(seconds > 0)) {
    std::fprintf(stderr, "hase_stranger: duty, threads and seconds must be above 0\n");
    return 2;
  }
  if (core != "any") {
    if (core.empty() || core.find_first_not_of("0123456789") != std::string::npos) {
      std::fprintf(stderr, "hase_stranger: core %s is neither a number nor any\n", core.c_str());
      return 2;
    }
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<size_t>(std::atoi(core.c_str())), &set);
    if (sched_setaffinity(0, sizeof(set), &set) != 0) {
      std::fprintf(stderr, "hase_stranger: may not run on core %s\n", core.c_str());
      return 1;
    }
  }
  if (const pid_t child = fork(); child != 0) _exit(child < 0);
  setsid();
  if (const pid_t child = fork(); child != 0) _exit(child < 0);
  std::printf("%d\n", getpid());
  std::fflush(stdout);
  std::fclose(stdout);
  const double end = Clock(CLOCK_MONOTONIC) + seconds;
  std::vector<std::jthread> team;
  for (int i = 1; i < threads; ++i) team.emplace_back(Work, kind, duty, 0.01, end);
  Work(kind, duty, 0.01, end);
}
