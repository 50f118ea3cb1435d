// hase: hybrid scheduling by prediction. Every Decide() makes a list schedule of the whole queue on
// predicted device times, so a job waits for a faster device exactly if it ends earlier there
// behind everything that is planned before it; what the plan starts now is started.
//
// 1. order     overdue jobs, then urgent ones, then priority (ageing), then the objective
// 2. stage one the frontier index: K earliest finishes of each device class
// 3. stage two exact finish of these: warm model, strangers' load; a divisible job's part ends with
//              the rest of the plan
// 4. promises  the first `reservation_depth` blocked jobs hold one, made on the joint finish of all
//              that is before them. A plan that would break one is made again, promised jobs first
// 5. polish    makespan, small queues of ordinary jobs: moves and swaps off the device that ends
//              last; with divisible jobs, also what saves work at the same end
// 6. sharing   blocked jobs join residents, or start in sets of up to four, where that is predicted
//              to pay and no promise suffers; types of device have prices, so that each job's work
//              goes where it is done at the least of them
// Idea of the two stages and of reservation with backfilling: the HASE paper; EASY and conservative
// backfilling: Mu'alem and Feitelson (2001). Left out: preemption, migration of running parts.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "placement/frontier.h"
#include "placement/policies/hase_ablation.h"
#include "placement/policies/hase_options.h"
#include "placement/policy.h"
#include "placement/rival.h"
#include "placement/timeline.h"

namespace hase::placement {

class Hase final : public Policy {
 public:
  explicit Hase(const HaseOptions& options);
  Plan Decide(const PlanningView& view) override;

 private:
  struct Planned {
    const QueuedJob* job = nullptr;
    std::vector<Spot> spots;       // gang
    std::vector<Spot> runners_up;  // for the record
    bool started = false;
    Nanos start() const { return spots.front().start; }
    Nanos finish() const { return spots.front().finish; }
  };
  struct Rank {
    enum Tier { kOverdue, kUrgent, kOrdinary };
    Tier tier;
    int priority;
    double overdue_since;  // arrival, if overdue
    double key;
    Nanos arrival;
    const QueuedJob* job;
    bool operator<(const Rank& other) const;
  };

  // hase.cc
  static std::string Missing(const QueuedJob& job, Nanos finish);
  static Candidate ToCandidate(const PlanningView& view, const Spot& spot);
  void AdmitNew(const PlanningView& view, Plan& plan);
  void Order(const PlanningView& view);
  void Emit(const PlanningView& view, Plan& plan);
  struct Part {
    int64_t inputs;
    Nanos finish;
  };
  std::optional<Part> PartOf(const PlanningView& view, const QueuedJob& job, const Spot& spot);
  // Returns the inputs it did not hand out.
  int64_t EmitStart(const PlanningView& view, Planned& planned, Plan& plan);
  void EmitRest(const PlanningView& view, const QueuedJob& job, int64_t left);
  void FillIdle(const PlanningView& view, Plan& plan);

  // hase_plan.cc
  void MakePlan(const PlanningView& view);
  enum class PassKind { kInOrder, kInOrderUntilLate, kPromisedFirst };
  // Returns the lateness of the promised job that ended it early; else 0.
  double Pass(const PlanningView& view, PassKind kind);
  bool KeepsOff(const PlanningView& view, const QueuedJob& job) const;
  void PreferSuited(const PlanningView& view, const QueuedJob& job);
  bool Place(const PlanningView& view, const QueuedJob& job);
  double LeastOfUnplaced(const PlanningView& view);
  bool HostsHold(const PlanningView& view, const QueuedJob& job, std::span<const Spot> spots) const;
  std::vector<Spot> IdleOverHosts(const PlanningView& view, const QueuedJob& job);
  bool PlaceOn(const PlanningView& view, const QueuedJob& job, const Promise& promise);
  void Refine(const PlanningView& view, const QueuedJob& job, std::vector<Spot>& spots) const;
  void Commit(const PlanningView& view, const QueuedJob& job, Planned planned);

  // hase_polish.cc
  void Polish(const PlanningView& view);

  // hase_share.cc
  struct Company {           // what co-location would do, in numbers
    bool allowed = true;     // no service suffers
    double rate_gain = 0;    // work per second gained, in units of one whole device
    double inflicted_s = 0;  // delay of residents, weighted by priority
    double free_before_s = 0, free_after_s = 0;  // until all have ended, mean
    double late_shift_s = 0;                     // by how much the promised quantile of that moves
    std::vector<double> ends_s;                  // of the newcomers, from now
    Nanos Shift() const {
      return FromSeconds(std::max(late_shift_s, free_after_s - free_before_s));
    }
  };
  struct Join {
    double finish_s = 0;
    Slot slot;
    Company company;
    Bytes memory;
    double gain = 0;  // work per second, weighted by how well the device suits the newcomer
  };
  Slot SlotAlone(const PlanningView& view, const QueuedJob& job, DeviceId id) const;
  void Share(const PlanningView& view, Plan& plan);
  void UpdateRooms(const PlanningView& view);
  double Footprint(const PlanningView& view, ModelId model, int64_t batch, DeviceTypeId type);
  double CostOn(const PlanningView& view, const QueuedJob& job, size_t type);
  double Suits(const PlanningView& view, const QueuedJob& job, DeviceTypeId type);
  double Weight(const PlanningView& view, const QueuedJob& job, DeviceTypeId type);
  int Partners(const PlanningView& view) const;
  bool IsNewKind(const QueuedJob& job);
  void SetPrices(const PlanningView& view);
  double GainOf(const PlanningView& view, const DeviceState& device, const QueuedJob& job,
                MilliShare share);
  std::optional<Join> FindJoin(const PlanningView& view, const Planned& planned, double least,
                               int& budget);
  void StartJoin(const PlanningView& view, Planned& planned, const Join& join, Plan& plan);
  Company Weigh(const PlanningView& view, const DeviceState& device,
                std::span<const Resident> joining) const;
  bool Pays(const PlanningView& view, const Company& company, std::span<const Nanos> planned,
            double alone_s);
  static std::vector<double> Slowdowns(const PlanningView& view, const DeviceState& device,
                                       const std::vector<latency::Tenant>& tenants);

  // hase_company.cc
  struct Together {
    std::vector<Planned*> members;  // the first would have the device alone
    std::vector<int64_t> shares;    // thousandths
    double value = 0;               // work per second, weighted by how well the device suits it
    std::vector<Resident> residents;
    Company company;
  };
  static cluster::ShareMode SharedMode(const DeviceState& device);
  bool TryTogether(const PlanningView& view, Planned& first, Plan& plan);
  void Fill(const PlanningView& view, const DeviceState& device, std::span<const int64_t> shares,
            Planned& first, Together& best);
  bool Admits(const PlanningView& view, const DeviceState& device, Together& together);

  // hase_promise.cc
  // What stands in the way of company: the promised jobs in the order in which a plan falls back on
  // them, each with the time by which it can start later and still keep its promise.
  struct Link {
    JobId job;
    std::vector<size_t> devices;  // into Chain::free
    Nanos start, length;          // as planned
    Nanos slack;
    Nanos arrival;
    bool overdue = false;  // no slack for company that arrived later
    bool gone = false;     // started in this call
  };
  struct Chain {
    std::vector<DeviceId> devices;
    std::vector<Nanos> free;   // by what runs there now or starts in this call
    std::vector<Link> links;   // by start
    std::vector<uint32_t> at;  // by device: its place in `devices` + 1; 0 = none
  };
  void BuildChain(const PlanningView& view);
  // Would every promise but those of `joining` hold if the device were free so much later, and no
  // overdue job wait longer for the `newest` of them?
  bool PromisesHold(DeviceId device, std::span<const JobId> joining, Nanos newest,
                    Nanos shift) const;
  void TakeIntoChain(DeviceId device, std::span<const JobId> joining, Nanos shift);
  void EmitPromises(const PlanningView& view, Plan& plan);
  void EmitPromise(const PlanningView& view, const Planned& planned, bool renew, Plan& plan);
  std::optional<Promise>& PromiseOf(JobId job);
  bool IsPromised(JobId job) const;
  bool IsOverdue(const PlanningView& view, const QueuedJob& job) const;
  // Seconds by which the plan's late starts pass what is promised and can still be kept.
  double Lateness(const PlanningView& view) const;
  double LatenessOf(const PlanningView& view, const Planned& planned) const;  // of a promised job
  double PromiseQuantile(const PlanningView& view);
  latency::Spread StartOf(const PlanningView& view, const Planned& planned) const;  // from now
  latency::Spread WithCompany(const PlanningView& view, const Planned& planned,
                              latency::Spread start);
  Nanos Late(const PlanningView& view, const Planned& planned, const latency::Spread& start) const;
  Nanos LateStart(const PlanningView& view, const Planned& planned) const;
  Nanos PlanEnd(const PlanningView& view);
  bool IsDeep(const PlanningView& view, double horizon_s);

  HaseOptions options_;
  SpecificationView specification_;
  JobTable table_;
  Frontier frontier_;
  NewJobs new_jobs_;
  PlanBook book_;
  Timeline timeline_;  // what the plan holds, behind the residents
  std::vector<Rank> order_;
  std::vector<Planned> planned_;
  std::deque<QueuedJob> parts_;  // rests of jobs cut in this call
  std::vector<Spot> spots_;
  std::vector<std::optional<Promise>> promises_;  // by job
  std::vector<JobId> rejected_;                   // in this call
  std::vector<uint64_t> placed_in_;               // by job: the pass that placed it
  uint64_t pass_ = 0;
  // Shared devices with room, by type: most room first.
  std::vector<std::set<std::pair<int64_t, uint32_t>>> rooms_;
  std::vector<int64_t> room_of_;  // by device; 0 = not listed
  double late_by_ = 0;            // deviations by which a promise lies behind the expected start
  std::vector<double> outcomes_;  // scratch of PromiseQuantile
  std::vector<double> prices_;    // of a second of each type of device; empty: not asked for yet
  size_t counted_ = 0;            // devices
  std::vector<int> devices_of_;   // by type
  std::vector<double> costs_;     // scratch of SetPrices
  std::map<std::pair<uint32_t, int64_t>, std::vector<float>> footprints_;  // by model, batch; type
  std::map<std::tuple<uint32_t, int64_t, int, uint32_t>, size_t> kinds_;
  std::vector<size_t> kind_of_;      // by job, + 1; 0 = not asked yet
  std::vector<uint64_t> kind_seen_;  // by kind: in which look it was met last
  uint64_t kind_look_ = 0;
  Chain chain_;
  bool co_located_ = false;    // in this call
  size_t promised_count_ = 0;  // of the queue's jobs
  int blocked_ = 0;
  std::vector<char> suited_;          // by type, of one job: PreferSuited()
  bool complete_ = false;             // every job of the queue is in the plan
  std::optional<Nanos> plan_end_;     // PlanEnd(), until the plan changes
  double left_out_s_ = 0;             // least times of those that are not
  std::vector<JobOnType> level_row_;  // of the first planned job: weighs devices by speed
};

}  // namespace hase::placement
