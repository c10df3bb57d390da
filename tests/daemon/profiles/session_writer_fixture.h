// Builds a session of the chain program, and reads the files that are written of it.

#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "collectors/parser/parser.h"
#include "daemon/names/code_naming.h"
#include "daemon/profiles/profile_files.h"
#include "daemon/storage/result_writer.h"
#include "formats/profile/gperftools_reader.h"
#include "tests/daemon/profiles/chain_program.h"
#include "tests/daemon/profiles/handmade_session.h"
#include "tests/daemon/samples/synthetic_sample.h"
#include "tests/daemon/storage/unpacked_result.h"
#include "tests/formats/readers.h"

namespace profd::test {

inline constexpr std::uint64_t kBase = 0x555500000000;  // where the program is mapped
inline constexpr ProcessKey kProgram{.tgid = 4321, .exec_id = 1, .start_ns = 100};

// Builds a session, writes it, and reads the files.
class SessionWriterTest : public testing::Test {
 protected:
  ProcessSnapshot& add_process(const std::string& comm, const ProcessKey& key = kProgram) {
    return test::add_process(snapshot_, key, comm);
  }

  // The chain program, or another one, as the executable, from a private copy.
  ChainProgram add_program(ProcessSnapshot& process, const std::string& name,
                           const std::string& original = CHAIN_PROGRAM) {
    const std::filesystem::path copy = scratch_.path() / name;
    std::filesystem::copy_file(original, copy);
    ChainProgram program(copy, kBase, original);
    image_of(process).executable = program.file()->key;
    image_of(process).mappings.emplace(1, program.mapping());
    return program;
  }

  void add_samples(ProcessSnapshot& process, SyntheticSample sample, int count = 1) {
    for (int i = 0; i < count; ++i) {
      const SampleView view = sample.view();
      process.samples.stacks.add(view, StackTable::hash_of(view),
                                 std::numeric_limits<std::uint64_t>::max());
      ++snapshot_.samples;
      ++snapshot_.ledger.taken;
    }
  }

  // leaf < middle < outer < _start, each at the start or just after a call.
  static SyntheticSample chain(const ChainProgram& program) {
    return SyntheticSample(kProgram)
        .leaf(program.address("leaf"), 1)
        .user(program.address("middle", 5), 1)
        .user(program.address("outer", 5), 1)
        .user(program.address("_start", 5), 1);
  }

  SessionSummary write() {
    ResultWriter result = ResultWriter::create(scratch_.path()).value();
    const SessionSummary summary = write_session(snapshot_, *naming_, result).value();
    test::unpack(result, scratch_.path() / "result");
    return summary;
  }

  std::filesystem::path path(const std::string& name) { return scratch_.path() / "result" / name; }

  Profile profile(const std::string& name) {
    return decode_gperftools(read_file(path(name))).value();
  }

  std::vector<std::string> objects() {
    std::vector<std::string> names;
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(path("objects"), none)) {
      names.push_back(entry.path().filename());
    }
    return names;
  }

  // Both pprofs, run where the profile is, since "$build" is ".".
  void expect_both_readers(const std::string& name, const std::map<std::string, Row>& rows) {
    const std::filesystem::path before = std::filesystem::current_path();
    std::filesystem::current_path(path(""));
    EXPECT_EQ(go_report(name).rows, rows);
    EXPECT_EQ(perl_report(name).rows, rows);
    std::filesystem::current_path(before);
  }

  std::unique_ptr<CodeNaming> naming_ = std::make_unique<CodeNaming>(Parser::start().value());
  ScratchDirectory scratch_;
  SessionSnapshot snapshot_ = handmade_session();
};

// Of three samples of chain().
inline const std::map<std::string, Row> kChainRows = {
    {"leaf", {3, 3}}, {"middle", {0, 3}}, {"outer", {0, 3}}, {"_start", {0, 3}}};

}  // namespace profd::test
