#include "cluster/cluster_file.h"

#include <gtest/gtest.h>

namespace hase::cluster {
namespace {

DeviceSpec Cpu() {
  DeviceSpec cpu;
  cpu.kind = DeviceKind::kCpu;
  cpu.sm_count = 4;
  cpu.peak_tflops[0] = 0.4;
  cpu.bandwidth_gb_s = 20;
  cpu.memory = GiB(8);
  return cpu;
}

Result<Cluster> Read(const std::string& text) {
  static const auto catalogue = Catalogue::Load();
  return ParseCluster("c.yaml", text, *catalogue, Cpu());
}

std::string ErrorOf(const std::string& text) {
  const auto cluster = Read(text);
  return cluster ? "no error" : cluster.error().message;
}

std::string OneNode(const std::string& devices) {
  return "nodes:\n  - name: n\n    host_cores: 4\n    devices:\n      - " + devices + "\n";
}

TEST(ClusterFile, ReadsNodesDevicesAndSharesTypes) {
  const auto cluster = Read(R"(
nodes:
  - name: gpu
    count: 2
    host_cores: 16
    host_memory_gib: 64
    devices:
      - {type: T4, count: 2}
      - {type: NVIDIA A100-SXM4-80GB, runtime: tensorrt, modes: [mps], price_per_hour: 4}
  - name: cpu
    x_rack: 7
    devices:
      - {type: cpu, cores: [0, 1], quota: 0.6}
      - {type: Tesla T4}
)");
  ASSERT_TRUE(cluster) << cluster.error().message;
  ASSERT_EQ(cluster->nodes.size(), 3u);
  EXPECT_EQ(cluster->nodes[1].name, "gpu-1");
  EXPECT_EQ(cluster->nodes[0].host_memory, GiB(64));
  ASSERT_EQ(cluster->devices.size(), 8u);
  ASSERT_EQ(cluster->types.size(), 3u);
  EXPECT_EQ(cluster->types[0].name, "T4");
  EXPECT_EQ(cluster->types[1].name, "A100-SXM4-80GB/tensorrt");
  EXPECT_EQ(cluster->types[2].name, "cpu-2c-q0.6");
  EXPECT_EQ(cluster->types[2].quota, MilliShare(600));
  EXPECT_NEAR(cluster->types[2].spec.peak_tflops[0], 0.2, 1e-9);
  for (size_t i = 0; i < cluster->devices.size(); ++i) {
    EXPECT_EQ(cluster->devices[i].id.index(), i);
  }
  EXPECT_EQ(cluster->devices[5].name, "gpu-1/2");
  EXPECT_EQ(cluster->devices[5].price_per_hour, 4);
  EXPECT_EQ(cluster->devices[5].modes,
            (std::vector<ShareMode>{ShareMode::kExclusive, ShareMode::kMps}));
  EXPECT_EQ(cluster->devices[6].cpu_cores, (std::vector<int>{0, 1}));
  EXPECT_EQ(cluster->devices[7].type, cluster->devices[0].type);
}

TEST(ClusterFile, WritesWhatItReads) {
  const auto first = Read(R"(
nodes:
  - {name: a, count: 2, host_cores: 8, host_memory_gib: 32, devices: [{type: V100, count: 2}]}
  - {name: b, devices: [{type: cpu, cores: [1], quota: 0.35, price_per_hour: 0.1}]}
)");
  ASSERT_TRUE(first) << first.error().message;
  const std::string text = FormatCluster(*first);
  const auto second = Read(text);
  ASSERT_TRUE(second) << second.error().message << text;
  EXPECT_EQ(FormatCluster(*second), text);
  EXPECT_EQ(second->devices.size(), first->devices.size());
}

TEST(ClusterFile, ErrorsNameThePlaceAndTheCause) {
  const std::pair<std::string, std::string> cases[] = {
      {"nodes: []\n", "c.yaml:1:8: the cluster has no device"},
      {"nodes:\n  - {name: n, devices: []}\n", "c.yaml:2:3: the cluster has no device"},
      {"hosts: []\n", "c.yaml:1:1: unknown key 'hosts'"},
      {OneNode("{type: T5}"), "c.yaml:5:16: unknown device 'T5' (nearest in the catalogue:"},
      {OneNode("{type: T4, count: -2}"), "c.yaml:5:27: count must be at least 1, not -2"},
      {OneNode("{type: T4, count: two}"), "c.yaml:5:27: 'two' is not a whole number"},
      {OneNode("{type: T4, quota: 0.5}"), "c.yaml:5:27: 'quota' is for type cpu only"},
      {OneNode("{type: P100, modes: [mps]}"), "cannot enforce mps shares"},
      {OneNode("{type: T4, modes: [mig]}"), "cannot enforce mig"},
      {OneNode("{type: T4, modes: [magic]}"), "unknown sharing mode 'magic'"},
      {OneNode("{type: T4, runtime: ort-cpu}"), "T4 does not run by ort-cpu"},
      {OneNode("{type: T4, price_per_hour: -1}"), "price_per_hour is negative"},
      {OneNode("{type: T4, colour: red}"), "c.yaml:5:20: unknown key 'colour'"},
      {OneNode("{type: cpu}"), "key 'cores' is missing"},
      {OneNode("{type: cpu, cores: []}"), "at least one core"},
      {OneNode("{type: cpu, cores: [4]}"), "there is no core 4 (host_cores: 4)"},
      {OneNode("{type: cpu, cores: [1, 1]}"), "core 1 twice"},
      {OneNode("{type: cpu, cores: [0], quota: 0}"), "quota 0 is outside (0, 1]"},
      {OneNode("{type: cpu, cores: [0], quota: 1.5}"), "quota 1.5 is outside (0, 1]"},
      {"nodes:\n  - {name: a-0, devices: [{type: T4}]}\n  - {name: a, count: 2, devices: [{type: "
       "T4}]}\n",
       "c.yaml:3:12: two nodes are called 'a-0'"},
      {"nodes:\n  - {name: a/b, devices: [{type: T4}]}\n", "node name 'a/b'"},
      {"nodes:\n  - {name: a, count: 50001, devices: [{type: T4, count: 2}]}\n",
       "more than 100000 devices"},
      {"nodes:\n  - {name: a, devices: [{type: T4, count: 999999999}]}\n",
       "more than 100000 devices"},
      {"nodes: [\n", "c.yaml:"},
  };
  for (const auto& [text, expected] : cases) {
    EXPECT_NE(ErrorOf(text).find(expected), std::string::npos)
        << text << "\ngave: " << ErrorOf(text);
  }
}

TEST(ClusterFile, WishesNameTypesByWholeParts) {
  const auto cluster = Read(
      "nodes:\n  - {name: n, devices: [{type: V100}, {type: A100}, {type: A10}, {type: cpu, cores: "
      "[0], quota: 0.6}]}\n");
  ASSERT_TRUE(cluster) << cluster.error().message;
  const auto& t = cluster->types;
  EXPECT_TRUE(NamesType("V100", t[0]));
  EXPECT_TRUE(NamesType("Tesla V100-SXM2-16GB", t[0]));
  EXPECT_FALSE(NamesType("V1", t[0]));
  EXPECT_TRUE(NamesType("A100-SXM4", t[1]));
  EXPECT_FALSE(NamesType("A10", t[1]));
  EXPECT_TRUE(NamesType("A10", t[2]));
  EXPECT_TRUE(NamesType("cpu", t[3]));
  EXPECT_TRUE(NamesType("cpu-1c-q0.6", t[3]));
  EXPECT_FALSE(NamesType("", t[3]));
}

}  // namespace
}  // namespace hase::cluster
