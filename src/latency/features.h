// Features: what the trees see of a kernel on a device. One definition for training and prediction.
//
// All times among them are ratios to the roofline, all sizes logarithms. The tile features follow
// how GPU libraries really cut the work: thread blocks of a tile each, run in waves of one block
// per SM, so that a last wave half empty costs as much as a full one; Winograd's transform domain
// counts its own tiles (F(4x4,3x3) as 36 matrix products, F(2x2,3x3) fused in blocks of 8x16
// outputs by 32 channels, as the block counts of cuDNN's kernels show). Features of the shape and
// of its fit to the device come first, those that merely identify the device last: an ensemble for
// unseen devices takes the first part only.
//
// Sources: roofline (CACM 2009); Lavin and Gray, "Fast Algorithms for Convolutional Neural
// Networks" (2016); NVIDIA's matrix multiplication guide (tile and wave quantisation).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "latency/kernel_model.h"

namespace hase::latency {

// Kernels that are cut into work the same way share trees.
enum class Family : uint8_t { kConv, kGemm, kMemory };
constexpr int kFamilyCount = 3;
std::string_view ToString(Family f);  // "conv", "gemm", "memory"
Family FamilyOf(const model::Kernel& kernel);

const std::vector<std::string>& FeatureNames(Family family);
// How many of them, from the front, do not identify the device.
size_t ShapeFeatureCount(Family family);

// Launch overhead assumed in the roofline: what the clock of that convention includes beyond the
// kernel, at this place of its session. Not fitted; the trees correct it.
double ConventionLaunchMicros(Convention convention, Family family, double session_place);

struct Features {
  Roofline roofline;
  std::vector<float> values;  // FeatureNames(FamilyOf(kernel)), all finite
};
// `bench` may be null: estimated from the specification.
Features ComputeFeatures(const model::Kernel& kernel, const KernelTarget& target,
                         Convention convention);

}  // namespace hase::latency
