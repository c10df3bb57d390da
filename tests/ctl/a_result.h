// A session with two profiles and an object, as a daemon gives it.

#pragma once

#include <array>
#include <string>

#include "formats/profile/gperftools_writer.h"
#include "formats/profile/profile.h"
#include "tests/daemon/control/fake_service.h"

namespace profd {

inline std::string a_profile(std::uint64_t count) {
  Profile profile;
  profile.period = 10101;
  profile.build_dir = ".";
  profile.mappings = {{0x400000, 0x401000, 0, "/bin/work"},
                      {0x500000, 0x501000, 0, "$build/objects/kernel.so"}};
  const std::array<Frame, 1> frames{Frame{0x400100, PcKind::kExact}};
  profile.add_stack(frames, count);
  return encode_gperftools(profile);
}

// Fills `service` with the session "5f2c01ab".
// What profctl says of it.
inline const std::string kLossOfResult = "profctl: 1 of 496 samples were lost: 1 ring_full\n";

inline void give_a_result(FakeService& service) {
  service.info.session = "5f2c01ab";
  service.info.state = "running";
  service.info.target.pids = {1234};
  service.info.event = "cpu";
  service.info.frequency_hz = 99;
  service.info.started = "2026-01-02T03:04:05Z";
  service.info.samples = 495;
  service.state.version = "0.1.0";
  service.files = {{"work.1.prof", a_profile(5)},
                   {"work.2.prof", a_profile(490)},
                   {"objects/kernel.so", std::string(100'000, 'k')}};
  service.result.result = "5f2c01ab";
  SessionSummary& summary = service.result.summary;
  summary = {};
  summary.session = "5f2c01ab";
  summary.started = "2026-01-02T03:04:05Z";
  summary.seconds = 5;
  summary.event = "cpu";
  summary.period_us = 10101;
  summary.ledger = {.taken = 496, .written = 495, .lost = {{"ring_full", 1}}};
  service.result.files.clear();
  for (const auto& [path, bytes] : service.files) {
    service.result.files.push_back({path, bytes.size()});
  }
  for (const std::uint32_t pid : {1u, 2u}) {
    ProfileSummary profile;
    profile.pid = pid;
    profile.comm = "work";
    profile.path = "work." + std::to_string(pid) + ".prof";
    profile.samples = pid == 1 ? 5 : 490;
    profile.user_samples = pid == 1 ? 0 : 480;
    profile.complete_samples = pid == 1 ? 0 : 240;
    summary.profiles.push_back(profile);
  }
}

}  // namespace profd
