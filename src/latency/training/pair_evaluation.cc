#include "latency/training/pair_evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/csv.h"
#include "base/file.h"

namespace hase::latency {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFile = "simulation_throughputs_colocated.csv";
constexpr int kFolds = 5;

Status ReadPairs(const fs::path& path, PairRows& out) {
  HASE_ASSIGN_OR_RETURN(const auto text, ReadFile(path));
  HASE_ASSIGN_OR_RETURN(
      const auto table,
      CsvTable::Parse(path.string(), text, {},
                      {"gpu", "job1", "job2", "scale1", "scale2", "normalised_1", "normalised_2"}));
  std::set<std::string> met;
  for (size_t i = 0; i < table.rows(); ++i) {
    const std::string card(table.Text(i, "gpu"));
    const std::string a(table.Text(i, "job1")), b(table.Text(i, "job2"));
    HASE_ASSIGN_OR_RETURN(const auto rate_a, table.Number(i, "normalised_1"));
    HASE_ASSIGN_OR_RETURN(const auto rate_b, table.Number(i, "normalised_2"));
    const auto [first, second] = std::minmax(a, b);
    if (card.ends_with("_unconsolidated")) {
      ++out.dropped["a copy (_unconsolidated)"];
    } else if (rate_a.value_or(0) <= 0 || rate_b.value_or(0) <= 0) {
      ++out.dropped["did not fit together"];
    } else if (table.Text(i, "scale1") != "1" || table.Text(i, "scale2") != "1") {
      ++out.dropped["on several cards"];
    } else if (!met.insert(card + "|" + first + "|" + second).second) {
      ++out.dropped["the same pair in the other order"];
    } else {
      out.cards[card].push_back({a, b, 1 / *rate_a});
      if (a != b) out.cards[card].push_back({b, a, 1 / *rate_b});
    }
  }
  return {};
}

// The slowdown c that minimises the mean of |y / c - 1|: the median of y weighted by y.
double BestConstant(std::vector<double> slowdowns) {
  std::ranges::sort(slowdowns);
  double total = 0, sum = 0;
  for (const double s : slowdowns) total += s;
  for (const double s : slowdowns) {
    sum += s;
    if (sum >= total / 2) return s;
  }
  return 1;
}

class Errors {
 public:
  void Add(double predicted, double measured) {
    ape_.push_back(std::abs(measured / predicted - 1));
  }
  PairErrors Summary() {
    PairErrors out;
    if (ape_.empty()) return out;
    for (const double e : ape_) out.mape += e / static_cast<double>(ape_.size());
    std::ranges::nth_element(ape_, ape_.begin() + static_cast<int64_t>(ape_.size() / 2));
    out.median_ape = ape_[ape_.size() / 2];
    return out;
  }

 private:
  std::vector<double> ape_;
};

PairGroup EvaluateCard(const std::string& card, std::span<const PairObservation> rows) {
  PairGroup g;
  g.card = card;
  g.rows = std::ssize(rows);
  Errors model, two_sided, job_factor, constant;
  std::set<std::string> jobs;
  g.least_rank = PairModel::kGreatestRank;
  for (int fold = 0; fold < kFolds; ++fold) {
    std::vector<PairObservation> kept, out;
    for (const auto& r : rows) {
      (PairFold(card, r.job, r.beside) == fold ? out : kept).push_back(r);
      jobs.insert(r.job);
    }
    std::vector<double> all;
    std::map<std::string, std::vector<double>> by_job;
    for (const auto& r : kept) {
      all.push_back(r.slowdown);
      by_job[r.job].push_back(r.slowdown);
    }
    const double of_all = BestConstant(all);
    const PairModel fitted = PairModel::Fit(kept), plain = PairModel::FitWithRank(kept, 0);
    g.least_rank = std::min(g.least_rank, fitted.rank());
    g.greatest_rank = std::max(g.greatest_rank, fitted.rank());
    for (const auto& r : out) {
      const auto own = by_job.find(r.job);
      model.Add(fitted.Slowdown(r.job, r.beside), r.slowdown);
      two_sided.Add(plain.Slowdown(r.job, r.beside), r.slowdown);
      job_factor.Add(own == by_job.end() ? of_all : BestConstant(own->second), r.slowdown);
      constant.Add(of_all, r.slowdown);
    }
  }
  for (const auto& r : rows) g.pairs += r.job <= r.beside ? 1 : 0;
  g.jobs = std::ssize(jobs);
  g.model = model.Summary();
  g.two_sided = two_sided.Summary();
  g.job_factor = job_factor.Summary();
  g.constant = constant.Summary();
  return g;
}

}  // namespace

Result<PairRows> ReadPairRows(std::span<const fs::path> paths) {
  PairRows out;
  for (const auto& path : paths) {
    std::error_code error;
    if (fs::exists(path / kFile)) HASE_RETURN_IF_ERROR(ReadPairs(path / kFile, out));
    for (auto it = fs::recursive_directory_iterator(path, error);
         !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
      if (it->is_directory(error) && it->path().filename() == "gavel" &&
          fs::exists(it->path() / kFile)) {
        HASE_RETURN_IF_ERROR(ReadPairs(it->path() / kFile, out));
      }
    }
  }
  if (out.cards.empty()) {
    return Invalid(fmt::format("no gavel/{} below the paths given to --data", kFile));
  }
  return out;
}

std::vector<PairGroup> EvaluatePairs(const PairRows& rows) {
  std::vector<PairGroup> out;
  for (const auto& [card, list] : rows.cards) out.push_back(EvaluateCard(card, list));
  return out;
}

}  // namespace hase::latency
