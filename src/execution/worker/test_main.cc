// main of the tests that start workers: a worker is this same binary run again.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string_view>

#include "execution/worker/worker.h"

int main(int argc, char** argv) {
  if (argc == 4 && std::string_view(argv[1]) == "worker")
    return hase::execution::WorkerMain(3, hase::Nanos(std::atoll(argv[3])));
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
