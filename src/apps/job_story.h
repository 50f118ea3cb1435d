// The story of one job out of an event log: what was promised, what stood in its way, how it ended.
#pragma once

#include <string>
#include <vector>

#include "execution/event_log.h"

namespace hase::apps {

struct StoryBlocker {
  std::string job, device;
  double started_s = 0, predicted_end_s = 0;
  double ended_s = -1;  // negative: still running where the log ends
};

struct StoryPromise {
  double told_s = 0, from_s = 0;
  std::string device, why;
  bool moved = false;  // an earlier promise, told anew
  // What ran on the device when it was told, by predicted end.
  std::vector<StoryBlocker> blockers;
};

struct JobStory {
  std::string job;
  double arrived_s = -1;
  std::vector<StoryPromise> promises;
  struct Run {
    std::string device, why;
    double share = 0, started_s = 0, predicted_end_s = 0, ended_s = -1;
    std::string ending;  // finished, part, failed, moved; empty: still running
  };
  std::vector<Run> runs;
  std::string ending;  // finished, failed, rejected, cancelled; empty: open
  std::string why;     // of a failure or reject
  double ended_s = -1;
  int passed_by = 0;  // later arrivals that started while this one waited
};

// No arrival in the log: the story has arrived_s < 0 and nothing else.
JobStory StoryOf(const std::string& job, const std::vector<execution::LoggedEvent>& events);

}  // namespace hase::apps
