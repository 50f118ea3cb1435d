#include "placement/frontier.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "placement/rival.h"

namespace hase::placement {

// ---- JobTable ----------------------------------------------------------------------------------

void JobTable::Fill(const PlanningView& view, const QueuedJob& job, std::span<JobOnType> row) {
  const double runs = BatchesPerSlot(job.inputs_left, job.batch, job.gang);
  for (size_t t = 0; t < row.size(); ++t) {
    row[t] = {};
    const DeviceTypeId type(static_cast<uint32_t>(t));
    if (!job.device_types.empty() &&
        std::ranges::find(job.device_types, type) == job.device_types.end()) {
      continue;
    }
    const latency::Estimate* estimate = view.estimator->Find(job.model, type, job.batch);
    if (!estimate) continue;
    latency::Spread time = estimate->Job(runs, /*cold=*/true);
    if (sharing_) {
      // Rivals with static shares see half a device, company unknown.
      const latency::Tenant half{job.model, job.batch, MilliShare(kWholeDevice.value() / 2)};
      time = time.ScaledBy(view.estimator->Slowdown(half, type, {}, {}));
    }
    row[t] = {true,
              time.mean_s,
              estimate->load_s,
              means_only_ ? time.mean_s : time.Quantile(0.95),
              time.variance_s2,
              MemoryNeed(job, *estimate)};
  }
}

std::span<const JobOnType> JobTable::Get(const PlanningView& view, const QueuedJob& job) {
  if (types_ != view.types.size()) {
    types_ = view.types.size();
    seen_.clear();
    cells_.clear();
  }
  const size_t index = job.id.index();
  if (index >= seen_.size()) {
    const size_t size = std::max(index + 1, seen_.size() * 2);
    seen_.resize(size);
    cells_.resize(size * types_);
  }
  Seen& seen = seen_[index];
  const std::span<JobOnType> row(cells_.data() + index * types_, types_);
  if (seen.inputs != job.inputs_left || seen.batch != job.batch ||
      seen.memory_factor != job.memory_factor) {
    Fill(view, job, row);
    seen = {job.inputs_left, job.batch, job.memory_factor, std::numeric_limits<double>::infinity()};
    for (const JobOnType& on : row) {
      if (on.possible) seen.least_s = std::min(seen.least_s, on.mean_s);
    }
  }
  return row;
}

double JobTable::Least(const PlanningView& view, const QueuedJob& job) {
  Get(view, job);
  return seen_[job.id.index()].least_s;
}

// ---- Frontier ----------------------------------------------------------------------------------

namespace {
// When something that is still running at `now` ends, said to end at `free_at`: if that is past, it
// is expected to last a twentieth of what it has run so far. Forecasts are sums of doubles: what is
// past by no more than their rounding ends in this very moment and has overrun nothing.
constexpr int64_t kRounding = 1'000;
constexpr double kBucket = 1.05;  // of speeds: within one, they differ by so much at most
int64_t Overrun(int64_t now, int64_t started, int64_t free_at) {
  if (free_at > now) return free_at;
  if (free_at > now - kRounding) return now + 1;
  return now + (now - started) / 20 + 1;
}
}  // namespace

int Frontier::ClassOf(DeviceTypeId type, double speed) {
  const int bucket =
      static_cast<int>(std::lround(std::log(std::max(speed, 1e-6)) / std::log(kBucket)));
  for (size_t i = 0; i < classes_.size(); ++i) {
    if (classes_[i].type == type && classes_[i].bucket == bucket) return static_cast<int>(i);
  }
  const int index = static_cast<int>(classes_.size());
  classes_.push_back({type, bucket, std::pow(kBucket, bucket - 0.5) * (1 - 1e-9), 0, {}, {}});
  const auto place = std::ranges::upper_bound(in_order_, std::pair(type, bucket), {}, [&](int i) {
    const Class& cls = classes_[static_cast<size_t>(i)];
    return std::pair(cls.type, cls.bucket);
  });
  in_order_.insert(place, index);
  return index;
}

void Frontier::Refresh(const PlanningView& view, const DeviceState& device) {
  const size_t i = device.id.index();
  forecasts_[i] = ForecastDevice(view, device);
  class_of_[i] = ClassOf(device.type, device.speed_factor);
  memory_[i] = device.memory_total;
  Base& base = bases_[i];
  base = {0, 0, device.speed_factor, class_of_[i], device.up && forecasts_[i].ends};
  if (device.residents.empty()) return;
  base.free_at = std::max<int64_t>(forecasts_[i].free_at.value(), 1);
  base.started = device.residents.front().started.value();
}

void Frontier::Update(const PlanningView& view) {
  if (view.everything_changed || forecasts_.size() != view.devices.size()) {
    forecasts_.resize(view.devices.size());
    class_of_.resize(view.devices.size());
    bases_.resize(view.devices.size());
    memory_.resize(view.devices.size());
    classes_.clear();
    in_order_.clear();
    for (const DeviceState& device : view.devices) Refresh(view, device);
  } else {
    for (const DeviceId id : view.changed_devices) Refresh(view, view.devices[id.index()]);
  }
}

void Frontier::PushServers(const PlanningView& view, const DeviceState& device) {
  const size_t i = device.id.index();
  const DeviceForecast& forecast = forecasts_[i];
  std::vector<Item>& heap = classes_[static_cast<size_t>(class_of_[i])].heap;
  const auto at_least = [&](Nanos free_at, Nanos started) {
    return Overrun(view.now.value(), started.value(), free_at.value());
  };
  const auto push = [&](int64_t free_at) {
    heap.push_back({free_at, device.speed_factor, device.id.index()});
    if (free_at <= view.now.value()) ++idle_;
  };
  if (!device.up) return;
  if (PlainSlot(device, true).mode != cluster::ShareMode::kExclusive) {
    int64_t free_share = (kWholeDevice - device.share_used()).value();
    for (size_t r = 0; r < device.residents.size(); ++r) {
      if (!device.residents[r].left) continue;
      const Nanos end = forecast.made_at + FromSeconds(forecast.until_end[r].mean_s);
      push(at_least(end, device.residents[r].started));
    }
    for (; free_share >= 500; free_share -= 500) push(0);
    return;
  }
  if (device.residents.empty()) {
    push(0);
  } else if (forecast.ends) {
    push(at_least(forecast.free_at, device.residents.front().started));
  }
}

void Frontier::Begin(const PlanningView& view) {
  now_ = view.now;
  idle_ = 0;
  for (Class& cls : classes_) {
    cls.heap.clear();
    cls.gaps.clear();
  }
  if (sharing_) {
    for (const DeviceState& device : view.devices) PushServers(view, device);
  } else {
    const int64_t now = view.now.value();
    for (uint32_t i = 0; i < bases_.size(); ++i) {
      const Base& base = bases_[i];
      if (!base.open) continue;
      int64_t free_at = base.free_at;
      if (free_at == 0) {
        ++idle_;
      } else {
        free_at = Overrun(now, base.started, free_at);
      }
      classes_[static_cast<size_t>(base.cls)].heap.push_back({free_at, base.speed, i});
    }
  }
  tops_.resize(in_order_.size());
  for (size_t place = 0; place < in_order_.size(); ++place) {
    const auto index = static_cast<size_t>(in_order_[place]);
    Class& cls = classes_[index];
    cls.place = place;
    std::make_heap(cls.heap.begin(), cls.heap.end());
    NoteTop(index);
  }
}

void Frontier::NoteTop(size_t cls) {
  const Class& c = classes_[cls];
  const bool any = !c.heap.empty();
  tops_[c.place] = {any ? c.heap[0].free_at : kNever,
                    any ? c.heap[0].speed : 1,
                    c.least_speed,
                    c.type.index(),
                    static_cast<uint32_t>(cls),
                    static_cast<uint32_t>(c.gaps.size())};
}

// Items of the class in the order in which they are free, as long as `more` says.
template <typename More>
void Frontier::FirstFree(const Class& cls, More&& more) const {
  auto& open = scratch_open_;  // a heap of (item, its place in the class's heap)
  open.clear();
  const auto later = [](const auto& a, const auto& b) { return a.first < b.first; };
  if (!cls.heap.empty()) open.emplace_back(cls.heap[0], 0);
  while (!open.empty()) {
    const auto [item, at] = open.front();
    if (!more(item)) return;
    std::pop_heap(open.begin(), open.end(), later);
    open.pop_back();
    const size_t child = 2 * size_t{at} + 1;
    for (size_t c = child; c <= child + 1 && c < cls.heap.size(); ++c) {
      open.emplace_back(cls.heap[c], static_cast<uint32_t>(c));
      std::push_heap(open.begin(), open.end(), later);
    }
  }
}

std::vector<Spot> Frontier::FindGang(const PlanningView& view, const QueuedJob& job,
                                     std::span<const JobOnType> row) const {
  const size_t k = static_cast<size_t>(job.gang);
  // The first to finish are enough; no device counts as more than two.
  const size_t enough = sharing_ ? 2 * k : k;
  const auto before = [](const Spot& a, const Spot& b) {
    if (a.finish != b.finish) return a.finish < b.finish;
    return std::tuple(a.device, a.start) < std::tuple(b.device, b.start);
  };
  const auto keep = [&](std::vector<Spot>& first, const Spot& spot) {
    if (first.size() == enough) {
      if (!before(spot, first.back())) return;
      first.pop_back();
    }
    first.insert(std::ranges::upper_bound(first, spot, before), spot);
  };
  std::vector<Spot> best;
  std::vector<Spot>& gang = scratch_gang_;
  const auto consider = [&](std::span<const Spot> spots) {
    // Lockstep: the common start is the latest of theirs, the slowest sets the pace. Each device
    // once, even where it counts as two servers.
    gang.clear();
    for (size_t i = 0; i < spots.size() && gang.size() < k; ++i) {
      if (!sharing_ || std::ranges::find(gang, spots[i].device, &Spot::device) == gang.end()) {
        gang.push_back(spots[i]);
      }
    }
    if (gang.size() < k) return;
    Nanos start, time, late;
    for (const Spot& s : gang) {
      start = std::max(start, s.start);
      time = std::max(time, s.finish - s.start);
      late = std::max(late, s.late - s.start);
    }
    if (!best.empty() && start + time >= best.front().finish) return;
    best.clear();
    for (const Spot& s : gang) best.push_back({s.device, start, start + time, start + late, false});
  };
  // The cards of one type, however their speeds differ, then any cards: a gang over several types
  // runs at the pace of the slowest, but may start sooner.
  auto &of_type = scratch_type_, &of_all = scratch_spots_;
  of_all.clear();
  size_t types = 0;
  for (size_t i = 0; i < tops_.size();) {
    const uint32_t type = tops_[i].type;
    const JobOnType& on = row[type];
    of_type.clear();
    for (; i < tops_.size() && tops_[i].type == type; ++i) {  // fastest first
      const Top& top = tops_[i];
      if (!on.possible || top.free_at == kNever) continue;
      const Nanos shortest(static_cast<int64_t>(on.mean_s * top.least_speed * 1e9));
      // A gang ends no sooner than any of its members would alone.
      const auto hopeless = [&](int64_t free_at) {
        const Nanos least = std::max(Nanos(free_at), view.now) + shortest;
        return (!best.empty() && least >= best.front().finish) ||
               (of_type.size() == enough && least > of_type.back().finish);
      };
      if (hopeless(top.free_at)) continue;
      FirstFree(classes_[top.cls], [&](const Item& item) {
        if (hopeless(item.free_at)) return false;
        if (on.memory <= memory_[item.device]) keep(of_type, SpotOn(item, on, view.now));
        return true;
      });
    }
    if (of_type.empty()) continue;
    ++types;
    consider(of_type);
    for (const Spot& spot : of_type) keep(of_all, spot);
  }
  if (types > 1) consider(of_all);
  return best;
}

std::optional<Spot> Frontier::SpotOf(const PlanningView& view, const JobOnType& job,
                                     DeviceId device) const {
  const Class& cls = classes_[static_cast<size_t>(class_of_[device.index()])];
  for (const Item& item : cls.heap) {
    if (item.device == device.index()) return SpotOn(item, job, view.now);
  }
  return std::nullopt;
}

Nanos Frontier::FreeAt(const PlanningView& view, DeviceId device) const {
  const Base& base = bases_[device.index()];
  if (!base.open) return Nanos::Max();
  if (base.free_at == 0) return view.now;
  return Nanos(Overrun(view.now.value(), base.started, base.free_at));
}

Nanos Frontier::LevelEnd(std::span<const JobOnType> job) const {
  double sum_s = 0, weights = 0;
  for (const int index : in_order_) {
    const Class& cls = classes_[static_cast<size_t>(index)];
    const JobOnType& on = job[cls.type.index()];
    if (!on.possible || on.mean_s <= 0) continue;
    for (const Item& item : cls.heap) {
      const double weight = 1 / (on.mean_s * item.speed);
      sum_s += weight * ToSeconds(std::max(Nanos(item.free_at), now_) - now_);
      weights += weight;
    }
  }
  return now_ + FromSeconds(weights > 0 ? sum_s / weights : 0);
}

double Frontier::SpeedFor(std::span<const JobOnType> job) const {
  double speed = 0;
  for (const int index : in_order_) {
    const Class& cls = classes_[static_cast<size_t>(index)];
    const JobOnType& on = job[cls.type.index()];
    if (!on.possible || on.mean_s <= 0) continue;
    for (const Item& item : cls.heap) speed += 1 / (on.mean_s * item.speed);
  }
  return speed;
}

void Frontier::ReplaceInHeap(Class& cls, DeviceId device, uint32_t hint, Nanos until) {
  auto& heap = cls.heap;
  size_t at = hint;
  if (at >= heap.size() || heap[at].device != device.index()) {
    // The heap has moved since: the earliest entry of this device.
    size_t found = heap.size();
    for (size_t i = 0; i < heap.size(); ++i) {
      if (heap[i].device == device.index() && (found == heap.size() || heap[found] < heap[i])) {
        found = i;
      }
    }
    at = found;
  }
  if (heap[at].free_at <= now_.value()) --idle_;
  heap[at].free_at = until.value();
  // Later means down the heap.
  for (;;) {
    size_t next = at;
    for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < heap.size(); ++child) {
      if (heap[next] < heap[child]) next = child;
    }
    if (next == at) break;
    std::swap(heap[at], heap[next]);
    at = next;
  }
  NoteTop(tops_[cls.place].cls);
}

void Frontier::Take(const Spot& spot, Nanos until) {
  Class& cls = classes_[static_cast<size_t>(class_of_[spot.device.index()])];
  if (!spot.in_gap) return ReplaceInHeap(cls, spot.device, spot.at, until);
  for (size_t i = 0; i < cls.gaps.size(); ++i) {
    Gap& gap = cls.gaps[i];
    if (gap.device != spot.device || std::max(gap.from, now_) != spot.start) continue;
    if (gap.from <= now_) --idle_;
    gap.from = until;
    if (gap.from >= gap.until) {
      cls.gaps.erase(cls.gaps.begin() + static_cast<std::ptrdiff_t>(i));
      --tops_[cls.place].gaps;
    }
    return;
  }
}

void Frontier::Shorten(DeviceId device, Nanos until) {
  Class& cls = classes_[static_cast<size_t>(class_of_[device.index()])];
  for (Item& item : cls.heap) {
    if (item.device == device.index()) item.free_at = std::min(item.free_at, until.value());
  }
  std::make_heap(cls.heap.begin(), cls.heap.end());
  NoteTop(tops_[cls.place].cls);
}

void Frontier::TakeGang(std::span<const Spot> spots, Nanos until) {
  for (const Spot& spot : spots) {
    Class& cls = classes_[static_cast<size_t>(class_of_[spot.device.index()])];
    for (const Item& item : cls.heap) {
      if (item.device != spot.device.index() || Nanos(item.free_at) >= spot.start) continue;
      cls.gaps.push_back({Nanos(item.free_at), spot.start, item.speed, spot.device});
      if (item.free_at <= now_.value()) ++idle_;
      break;
    }
    ReplaceInHeap(cls, spot.device, spot.at, until);
  }
}

}  // namespace hase::placement
