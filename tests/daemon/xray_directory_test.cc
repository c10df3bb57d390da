#include "daemon/xray_directory.h"

#include <chrono>
#include <fstream>
#include <string>

#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

#include "formats/xray_fdr_writer.h"
#include "tests/daemon/running_server.h"

namespace profd {
namespace {

void leave_trace(const std::filesystem::path& path) {
  xray::Writer writer(xray::Format{});
  writer.preamble({.process = 1 << 30, .thread = 1, .wall_ns = 1, .ticks = 1, .cpu = 0});
  writer.function(xray::Action::kEnter, 1, 1);
  writer.function(xray::Action::kExit, 1, 1);
  std::ofstream(path) << xray::encode_header({{}, true, true, 1'000'000'000, 4096})
                      << writer.take_buffer(4096);
}

class XrayDirectoryTest : public ::testing::Test {
 protected:
  XrayDirectoryTest() { std::filesystem::create_directory(traces()); }

  [[nodiscard]] std::filesystem::path traces() const { return place_.path() / "traces"; }

  // Runs until that many are done, one way or the other.
  XrayDirectory::Counts watch_until(std::uint64_t done) {
    boost::asio::io_context io;
    auto store = ResultStore::open(place_.path() / "results");
    EXPECT_TRUE(store);
    auto directory = XrayDirectory::open(
        {.io = io, .store = *store, .unused_id = [this] { return "id" + std::to_string(++ids_); }},
        traces());
    EXPECT_TRUE(directory);
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    const auto& counts = (*directory)->counts();
    while (counts.logs + counts.refused < done && std::chrono::steady_clock::now() < limit) {
      io.run_for(std::chrono::milliseconds(50));
    }
    io.run_for(std::chrono::milliseconds(200));
    const XrayDirectory::Counts seen = counts;
    (*directory)->stop();
    io.run();
    return seen;
  }

  TemporaryDirectory place_;
  int ids_ = 0;
};

TEST_F(XrayDirectoryTest, WhatWasLeftWhileNobodyWatchedIsTakenOnce) {
  leave_trace(traces() / "xray-log.work.aaaaaa");
  EXPECT_EQ(watch_until(1).logs, 1U);
  EXPECT_EQ(watch_until(0).logs, 0U);
  leave_trace(traces() / "xray-log.work.bbbbbb");
  EXPECT_EQ(watch_until(1).logs, 1U);
}

TEST_F(XrayDirectoryTest, WhatIsNoTraceIsCounted) {
  std::ofstream(traces() / "xray-log.work.aaaaaa") << std::string(4096, 'x');
  EXPECT_EQ(watch_until(1).refused, 1U);
}

}  // namespace
}  // namespace profd
