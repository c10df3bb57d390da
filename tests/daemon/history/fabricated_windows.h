// A state directory with windows that a test writes instead of the daemon, in the forms of
// daemon/history/files.h.

#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/history/store.h"
#include "formats/base/time_text.h"
#include "formats/elf/image.h"
#include "formats/proc/cgroup_path.h"
#include "formats/profile/gperftools_writer.h"
#include "tests/formats/readers.h"

namespace profd::test {

struct FabricatedProfile {
  std::uint32_t pid = 7;
  std::string comm = "work";
  std::optional<ProcessOwner> owner;
  std::optional<std::uint32_t> user = 0;
  std::string cgroup;
  Profile profile;
};

class FabricatedWindows {
 public:
  using Time = std::chrono::system_clock::time_point;

  FabricatedWindows() {
    std::filesystem::create_directories(state() / "windows");
    std::filesystem::create_directories(objects());
  }

  [[nodiscard]] std::filesystem::path state() const { return scratch_.path(); }
  [[nodiscard]] std::string objects() const { return state() / "objects"; }
  [[nodiscard]] WindowStore open() const { return WindowStore::open(state()).value(); }

  // An image with one executable segment at 0x1000, of functions of 0x100 bytes each from there on.
  ProfileMapping add_object(const std::string& name, const std::vector<std::string>& functions,
                            std::uint64_t start) {
    FileImage image;
    image.original = {.type = 3 /* ET_DYN */,
                      .machine = 62 /* EM_X86_64 */,
                      .entry = 0,
                      .segments = {{.offset = 0x1000,
                                    .vaddr = 0x1000,
                                    .file_bytes = 0x10000,
                                    .memory_bytes = 0x10000,
                                    .align = 0x1000,
                                    .flags = 5 /* r-x */}},
                      .build_id = name};
    for (std::size_t i = 0; i < functions.size(); ++i) {
      image.functions.push_back({0x1000 + 0x100 * i, 0x100, functions[i]});
    }
    (void)scratch_.write("objects/" + name, encode_file_image(image));
    names_.push_back(name);
    return {start, start + 0x10000, 0x1000, objects() + "/" + name};
  }

  // Of the kernel: functions of 0x100 bytes from `address` on.
  ProfileMapping add_kernel(const std::string& name, const std::vector<std::string>& functions,
                            std::uint64_t address) {
    const std::uint64_t start = fold_kernel_address(address);
    AbsoluteImage image;
    image.text_start = start;
    image.text_end = start + 0x10000;
    for (std::size_t i = 0; i < functions.size(); ++i) {
      image.functions.push_back({start + 0x1000 + 0x100 * i, 0x100, functions[i]});
    }
    (void)scratch_.write("objects/" + name, encode_absolute_image(image));
    names_.push_back(name);
    const ImagePlacement placement = placement_of(image);
    return {placement.start, placement.end, placement.file_offset, objects() + "/" + name};
  }

  // A window of a minute; needs all objects so far. Returns its name.
  std::string add(Time start, const std::vector<FabricatedProfile>& profiles,
                  const CountsByReason& lost = {}) {
    WindowRecord record;
    record.start = start;
    record.end = start + std::chrono::seconds(60);
    record.objects = names_;
    SessionSummary summary;
    summary.session = window_name(start);
    summary.started = utc_text(start);
    summary.seconds = 60;
    summary.event = "cpu";
    summary.period_us = 52'632;
    summary.ledger.lost = lost;
    const std::string directory = "windows/" + summary.session + "/";
    std::filesystem::create_directories(state() / directory);
    for (const FabricatedProfile& profile : profiles) {
      const ProfileSummary one = summary_of(profile, summary.profiles.size());
      summary.ledger.written += one.samples;
      record.profiles.push_back({.path = one.path,
                                 .owner = profile.owner,
                                 .user = profile.user,
                                 .cgroup = profile.cgroup});
      (void)scratch_.write(directory + one.path, encode_gperftools(profile.profile));
      summary.profiles.push_back(one);
    }
    summary.ledger.taken = summary.ledger.written + sum_of(lost);
    (void)scratch_.write(directory + kWindowSummaryFile, to_json(summary));
    (void)scratch_.write(directory + kWindowRecordFile, to_json(record));
    return summary.session;
  }

 private:
  static ProfileSummary summary_of(const FabricatedProfile& profile, std::size_t number) {
    const CgroupOwner owner = owner_of_cgroup(profile.cgroup);
    ProfileSummary summary;
    summary.pid = profile.pid;
    summary.start_time_ns = 1000 + profile.pid;
    summary.comm = profile.comm;
    summary.path =
        profile.comm + "." + std::to_string(profile.pid) + "." + std::to_string(number) + ".prof";
    summary.samples = profile.profile.samples();
    summary.stacks = profile.profile.records().size();
    summary.user_samples = summary.samples;
    summary.complete_samples = summary.samples;
    summary.unit = owner.unit;
    summary.container = owner.container;
    return summary;
  }

  ScratchDirectory scratch_;
  std::vector<std::string> names_;
};

inline Profile profile_of(
    std::vector<ProfileMapping> mappings,
    const std::vector<std::pair<std::vector<std::uint64_t>, std::uint64_t>>& stacks) {
  Profile profile;
  profile.period = 52'632;
  profile.mappings = std::move(mappings);
  for (const auto& [pcs, count] : stacks) profile.add_record(pcs, count);
  return profile;
}

}  // namespace profd::test
