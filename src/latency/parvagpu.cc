#include "latency/parvagpu.h"

#include <cmath>
#include <map>

#include "base/csv.h"
#include "base/file.h"

namespace hase::latency {
namespace {

ShareGrant MigGrant(int64_t slices, int64_t processes) {
  return {MilliShare(std::llround(1000.0 * static_cast<double>(slices) / 7)),
          cluster::ShareMode::kMig, static_cast<int>(processes)};
}

bool Same(const SurfacePoint& a, const SurfacePoint& b) {
  return a.batch == b.batch && a.grant.share == b.grant.share &&
         a.grant.processes == b.grant.processes;
}

}  // namespace

Result<ParvaProfile> ReadParvaProfile(const std::string& folder) {
  const std::string path = folder + "/mig_mps_profile.csv";
  HASE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  HASE_ASSIGN_OR_RETURN(const CsvTable table,
                        CsvTable::Parse(path, text, {},
                                        {"model", "mig_gpc", "batch", "mps_processes",
                                         "throughput_per_s", "latency_s"}));
  ParvaProfile profile;
  for (size_t i = 0; i < table.rows(); ++i) {
    HASE_ASSIGN_OR_RETURN(const int64_t slices, table.RequiredInteger(i, "mig_gpc"));
    HASE_ASSIGN_OR_RETURN(const int64_t batch, table.RequiredInteger(i, "batch"));
    HASE_ASSIGN_OR_RETURN(const int64_t processes, table.RequiredInteger(i, "mps_processes"));
    HASE_ASSIGN_OR_RETURN(const double rate, table.RequiredNumber(i, "throughput_per_s"));
    HASE_ASSIGN_OR_RETURN(const double latency, table.RequiredNumber(i, "latency_s"));
    if (rate <= 0 || latency <= 0) {
      ++profile.dropped;
      continue;
    }
    ParvaRow row;
    row.model = table.Text(i, "model");
    row.point = {batch, MigGrant(slices, processes), static_cast<double>(batch) / rate};
    row.latency_s = latency;
    profile.rows.push_back(std::move(row));
  }
  return profile;
}

std::vector<SurfacePoint> ParvaDesign() {
  std::vector<SurfacePoint> design;
  const int points[9][3] = {{1, 1, 1}, {7, 1, 1},  {7, 32, 1}, {1, 16, 1}, {3, 32, 1},
                            {4, 8, 2}, {7, 64, 2}, {2, 8, 3},  {3, 4, 3}};
  for (const auto& [slices, batch, processes] : points)
    design.push_back({batch, MigGrant(slices, processes), 0});
  return design;
}

std::vector<SurfaceError> ScoreParva(const ParvaProfile& profile, double least_s) {
  std::map<std::string, std::vector<const ParvaRow*>> models;
  for (const auto& row : profile.rows) models[row.model].push_back(&row);
  const auto design = ParvaDesign();
  std::vector<SurfaceError> errors;
  for (const auto& [model, rows] : models) {
    std::vector<SurfacePoint> points;
    std::vector<const ParvaRow*> rest;
    for (const ParvaRow* row : rows) {
      bool fitted = false;
      for (const auto& d : design) fitted |= Same(d, row->point);
      if (fitted)
        points.push_back(row->point);
      else if (row->latency_s >= least_s)
        rest.push_back(row);
    }
    const Correction c = FitCorrection(UnknownModel, 0, points, UnknownModelPrior());
    SurfaceError e{model, static_cast<int>(points.size()), static_cast<int>(rest.size()), 0, 0};
    for (const ParvaRow* row : rest) {
      const auto& p = row->point;
      const double t = RunSeconds(c.Apply(UnknownModel(p.batch), p.batch), c.law, 0, p.grant);
      e.mape += std::abs(t / row->latency_s - 1) / e.scored;
      e.mape_unrounded += std::abs(t / p.seconds - 1) / e.scored;
    }
    errors.push_back(e);
  }
  return errors;
}

}  // namespace hase::latency
