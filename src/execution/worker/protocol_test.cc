#include "execution/worker/protocol.h"

#include <gtest/gtest.h>

namespace hase::execution {
namespace {

TEST(Protocol, RequestsSurviveTheTrip) {
  LoadRequest load;
  load.model = "a b\"c.onnx";
  load.batch = 8;
  load.threads = 2;
  load.dimensions = {{"N", 8}};
  load.duty = MilliShare(300);
  load.profile_prefix = "/p";
  const auto back = DecodeRequest(Encode(load));
  ASSERT_TRUE(back) << back.error().message;
  const auto& got = std::get<LoadRequest>(*back);
  EXPECT_EQ(got.model, load.model);
  EXPECT_EQ(got.batch, 8);
  EXPECT_EQ(got.dimensions, load.dimensions);
  EXPECT_EQ(got.duty, load.duty);
  EXPECT_EQ(got.profile_prefix, "/p");
  const auto run = DecodeRequest(Encode(RunRequest{.inputs = 7, .chunk_inputs = 3}));
  ASSERT_TRUE(run);
  EXPECT_EQ(std::get<RunRequest>(*run).inputs, 7);
  EXPECT_EQ(std::get<RunRequest>(*run).chunk_inputs, 3);
  EXPECT_TRUE(std::holds_alternative<StopRequest>(*DecodeRequest(Encode(StopRequest{}))));
}

TEST(Protocol, MessagesSurviveTheTrip) {
  const Chunk chunk{.inputs = 5,
                    .batches = 3,
                    .busy = Nanos(700),
                    .processor = Nanos(650),
                    .p10 = Nanos(1),
                    .p50 = Nanos(2),
                    .p90 = Nanos(3),
                    .times = {Nanos(1), Nanos(2), Nanos(3)}};
  const auto back = DecodeMessage(Encode(chunk));
  ASSERT_TRUE(back) << back.error().message;
  const auto& got = std::get<Chunk>(*back);
  EXPECT_EQ(got.inputs, 5);
  EXPECT_EQ(got.processor, Nanos(650));
  EXPECT_EQ(got.times, chunk.times);
  model::ort::NodeTime node;
  node.name = "n\xff";  // no UTF-8
  node.runs = 4;
  const auto profile = DecodeMessage(Encode(Profile{{node}}));
  ASSERT_TRUE(profile);
  EXPECT_EQ(std::get<Profile>(*profile).nodes.at(0).runs, 4);
}

TEST(Protocol, NonsenseIsAnError) {
  for (const char* text : {"", "{", "[]", "{\"kind\":\"chunk\"}", "{\"kind\":7}",
                           "{\"kind\":\"loaded\",\"load\":\"x\"}", "\xff\xfe"}) {
    EXPECT_FALSE(DecodeMessage(text)) << text;
    EXPECT_FALSE(DecodeRequest(text)) << text;
  }
}

}  // namespace
}  // namespace hase::execution
