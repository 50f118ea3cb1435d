#include "placement/policies/hase_options.h"

#include "placement/options.h"

namespace hase::placement {

Result<HaseOptions> HaseOptions::Parse(std::string_view options) {
  HaseOptions o;
  OptionText text("hase", options);
  int objective = 0, deadline = 0, estimates = 0;
  text.Word("objective", {"makespan", "completion", "fair"}, objective);
  o.objective = static_cast<Objective>(objective);
  if (o.objective == Objective::kCompletion) o.reservation_depth = 8;
  text.Integer("candidates", 1, 32, o.candidates);
  text.Integer("reservation_depth", 0, 1'000'000, o.reservation_depth);
  text.Number("probability", 0.5, 0.999, o.probability);
  text.Number("overdue_s", 0, 1e9, o.overdue_s);
  text.Number("ageing_s", 1e-3, 1e9, o.ageing_s);
  text.Word("deadline", {"late", "reject"}, deadline);
  text.Flag("sharing", o.sharing);
  text.Number("share_gain", 0, 10, o.share_gain);
  text.Number("share_depth", 1, 100, o.share_depth);
  text.Flag("backfill", o.backfill);
  text.Flag("reservation", o.reservation);
  text.Flag("interference", o.interference);
  text.Flag("quantile", o.quantile);
  text.Flag("chunking", o.chunking);
  text.Flag("polish", o.polish);
  text.Word("estimates", {"calibrated", "spec"}, estimates);
  HASE_RETURN_IF_ERROR(text.Finish());
  o.reject_late = deadline == 1;
  o.spec_only = estimates == 1;
  if (!o.reservation) o.reservation_depth = 0;
  return o;
}

}  // namespace hase::placement
