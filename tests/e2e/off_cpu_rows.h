// What the tests of off-CPU profiles compare: the samples of a .pb.gz file by function and label,
// and what tests/workloads/waits.c printed of itself.

#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace profd::e2e {

using LabelTexts = std::map<std::string, std::string>;

struct BlockSum {
  double blocks = 0;
  double ns = 0;
};

struct BlockRow {
  std::vector<std::string> frames;  // function names, the leaf first, with inlined ones
  LabelTexts labels;
  BlockSum sum;
};

class BlockRows {
 public:
  // Fails the test when it can't be read, or has not two values a sample.
  static BlockRows read(const std::filesystem::path& file);

  [[nodiscard]] const std::vector<BlockRow>& all() const { return rows_; }
  // "off_cpu/nanoseconds"
  [[nodiscard]] const std::vector<std::string>& types() const { return types_; }
  [[nodiscard]] const std::string& default_type() const { return default_type_; }

  // The samples that have the function in their stack, and all of these labels.
  [[nodiscard]] BlockSum in(const std::string& function, const LabelTexts& labels = {}) const;
  [[nodiscard]] BlockSum with(const LabelTexts& labels) const;

 private:
  std::vector<BlockRow> rows_;
  std::vector<std::string> types_;
  std::string default_type_;
};

struct OwnWait {
  std::uint64_t count = 0;
  double ns = 0;
  double switches = 0;
};

struct OwnThread {
  double wall_ns = 0;
  double run_ns = 0;
  double delay_ns = 0;
  double switches = 0;
};

class OwnWaits {
 public:
  // Of the last line of the output that is an object; fails the test without one.
  static OwnWaits parse(const std::string& output);

  // All 0 for an unknown name.
  [[nodiscard]] OwnWait function(const std::string& name) const;
  [[nodiscard]] OwnThread thread(const std::string& name) const;

 private:
  std::map<std::string, OwnWait> functions_;
  std::map<std::string, OwnThread> threads_;
};

}  // namespace profd::e2e
