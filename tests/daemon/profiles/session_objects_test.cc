// The names of files in a session's profiles, and the images of files that pprof can't open.

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "daemon/profiles/object_images.h"
#include "daemon/storage/result_store.h"
#include "daemon/storage/result_writer.h"
#include "formats/profile/pprof_reader.h"
#include "tests/daemon/local_parser.h"
#include "tests/daemon/profiles/session_writer_fixture.h"

namespace profd {
namespace {

using test::ChainProgram;
using test::kBase;
using test::kChainRows;
using test::kProgram;
using test::SessionWriterTest;
using test::SyntheticSample;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;
using testing::Pair;
using testing::StartsWith;
using testing::UnorderedElementsAre;

TEST_F(SessionWriterTest, NamesAFileByItsPathIfItIsTheOneThatRan) {
  ProcessSnapshot& process = add_process("chain");
  const ChainProgram program = add_program(process, "libchain.so");
  add_samples(process, chain(program), 3);
  const SessionSummary summary = write();
  ASSERT_EQ(summary.profiles.size(), 1U);
  EXPECT_EQ(summary.profiles[0].path, "chain.4321.prof");
  EXPECT_EQ(profile("chain.4321.prof").mappings.at(0).path, scratch_.path() / "libchain.so");
  EXPECT_THAT(objects(), ElementsAre());
  expect_both_readers("chain.4321.prof", kChainRows);
}

TEST_F(SessionWriterTest, NamesTheFunctionsOfADeletedFileByAnImage) {
  ProcessSnapshot& process = add_process("chain");
  const ChainProgram program = add_program(process, "chain");
  std::filesystem::remove(scratch_.path() / "chain");
  add_samples(process, chain(program), 3);
  write();
  EXPECT_THAT(objects(), ElementsAre(MatchesRegex("chain-[0-9a-f]+-[0-9a-f]+\\.so")));
  EXPECT_THAT(profile("chain.4321.prof").mappings.at(0).path, StartsWith("$build/objects/chain-"));
  expect_both_readers("chain.4321.prof", kChainRows);
}

// Go's linker sets a time of change that the file system's own, coarser clock has not reached yet.
TEST_F(SessionWriterTest, AFileWhoseTimeWasSetToALaterOneIsRead) {
  ProcessSnapshot& process = add_process("chain");
  const std::filesystem::path copy = scratch_.path() / "chain";
  std::filesystem::copy_file(CHAIN_PROGRAM, copy);
  std::filesystem::last_write_time(
      copy, std::filesystem::file_time_type::clock::now() + std::chrono::hours(1));
  const ChainProgram program(copy, kBase);
  test::image_of(process).executable = program.file()->key;
  test::image_of(process).mappings.emplace(1, program.mapping());
  add_samples(process, chain(program), 3);
  write();
  EXPECT_EQ(naming_->stats().shares.fully_named, 3U);
}

// What addr2line prints for an address, without the numbers of blocks of a line.
std::string frames_at(const std::string& file, std::uint64_t address) {
  std::ostringstream command;
  command << "addr2line -i -f -e " << file << " 0x" << std::hex << address
          << " | sed 's/ (discriminator.*//'";
  return test::output_of(command.str());
}

TEST_F(SessionWriterTest, TheImageOfADeletedFileHasItsLinesAndInlinedFunctions) {
  ProcessSnapshot& process = add_process("inlined");
  const ChainProgram program = add_program(process, "inlined", INLINED_PROGRAM);
  std::filesystem::remove(scratch_.path() / "inlined");
  constexpr std::uint64_t kHits = 40;
  for (std::uint64_t i = 0; i < kHits; i += 4) {
    add_samples(process, SyntheticSample(kProgram).leaf(program.address("outer", i), 1));
  }
  write();
  ASSERT_EQ(objects().size(), 1U);
  const std::string image = path("objects/" + objects().front());
  std::size_t most = 0;
  for (std::uint64_t i = 0; i < kHits; i += 4) {
    const std::uint64_t address = program.address("outer", i) - kBase;
    const std::string frames = frames_at(INLINED_PROGRAM, address);
    EXPECT_EQ(frames_at(image, address), frames) << std::hex << address;
    most = std::max<std::size_t>(most, std::ranges::count(frames, '\n') / 2);
  }
  EXPECT_EQ(most, 3U) << "functions at an address";
}

// A parser that fails, as if a file had killed it or its time was over.
class FailingParser final : public test::LocalParser {
 public:
  explicit FailingParser(bool has_summaries) : has_summaries_(has_summaries) {}
  Result<ElfSummary> read_elf_summary(int fd) override {
    if (has_summaries_) return LocalParser::read_elf_summary(fd);
    return fail(ErrorCode::kUnavailable, "the parser died");
  }
  Result<std::vector<ElfSymbol>> find_elf_symbols(int, std::span<const std::uint64_t>,
                                                  SymbolBudget&) override {
    return fail(ErrorCode::kTimeout, "the file takes too much time to parse");
  }

 private:
  bool has_summaries_;
};

TEST_F(SessionWriterTest, WritesEverySampleIfTheParserFails) {
  ProcessSnapshot& process = add_process("chain");
  const ChainProgram program = add_program(process, "chain");
  std::filesystem::remove(scratch_.path() / "chain");
  add_samples(process, chain(program), 3);
  for (const bool has_summaries : {true, false}) {
    std::filesystem::remove_all(path(""));
    naming_ = std::make_unique<CodeNaming>(std::make_unique<FailingParser>(has_summaries));
    const SessionSummary summary = write();
    EXPECT_EQ(summary.ledger.written, 3U);
    EXPECT_EQ(summary.ledger.difference(), 0);
    EXPECT_EQ(objects().size(), has_summaries ? 1U : 0U) << "an image, without names";
    const std::string line = profile("chain.4321.prof").mappings.at(0).path;
    EXPECT_EQ(line.starts_with(has_summaries ? "$build/objects/" : "[chain"), true) << line;
  }
}

TEST_F(SessionWriterTest, ContinuesWhenTheParserWasKilled) {
  ProcessSnapshot& process = add_process("chain");
  const ChainProgram program = add_program(process, "chain");
  add_samples(process, chain(program), 3);
  ASSERT_EQ(::kill(naming_->parser().child(), SIGKILL), 0);
  EXPECT_EQ(write().ledger.written, 3U);
}

TEST_F(SessionWriterTest, WritesImagesBeyondTheirLimitsWithoutSymbols) {
  struct Case {
    std::uint64_t image_bytes;
    SymbolBudget symbols;
    bool named;
  };
  ProcessSnapshot& process = add_process("chain");
  const ChainProgram program = add_program(process, "chain");
  ASSERT_EQ(::chown((scratch_.path() / "chain").c_str(), 65534, 65534), 0);
  std::filesystem::remove(scratch_.path() / "chain");
  const ProcessMapping mapping = program.mapping();
  int number = 0;
  for (const Case& c : {Case{1 << 20, {}, true}, Case{100, {}, false},
                        Case{1 << 20, {.table_bytes = 10, .time = std::chrono::hours(1)}, false},
                        Case{1 << 20, {.table_bytes = 1 << 20, .time = {}}, false}}) {
    ObjectImages images(naming_->parser(), "6.1");
    images.find_or_add(mapping, true, 0)
        .hit(program.address("leaf") - mapping.start + mapping.file_offset);
    ResultWriter result = ResultWriter::create(scratch_.path()).value();
    SymbolBudgets symbols(c.symbols);
    NameCache names;
    ASSERT_TRUE(images.write(result, c.image_bytes, symbols, names));
    ASSERT_EQ(result.files().size(), 1U);
    const std::string image = result.read_back(result.files()[0].path).value();
    EXPECT_EQ(image.find("leaf") != image.npos, c.named) << number++;
  }
}

TEST_F(SessionWriterTest, AProgramThatItsUserMayNotReadHasNoImageForTheUser) {
  ProcessSnapshot& process = add_process("chain");
  const std::string path = scratch_.path() / "chain";
  (void)add_program(process, "chain");
  ASSERT_EQ(::chown(path.c_str(), 65534, 65534), 0);
  ASSERT_EQ(::chmod(path.c_str(), 0711), 0);
  ProcessMapping mapping;
  mapping.kind = PROFD_MAPPING_FILE;
  mapping.file = test::open_mapped(path);
  ASSERT_TRUE(mapping.file->is_private);
  std::filesystem::remove(path);
  ObjectImages images(naming_->parser(), "6.1");
  EXPECT_FALSE(images.find_or_add(mapping, true, 1000).has_image());
  EXPECT_TRUE(images.find_or_add(mapping, true, 65534).has_image());
  EXPECT_TRUE(images.find_or_add(mapping, true, 0).has_image());
  EXPECT_FALSE(images.find_or_add(mapping, true, 1000).has_image());
}

// The one who has mapped the file first has it at a path of his own.
TEST_F(SessionWriterTest, APathThatAProcessDoesNotKnowIsInNoneOfItsFiles) {
  std::filesystem::create_directory(scratch_.path() / "secret");
  ProcessSnapshot& first = add_process("one");
  const ChainProgram program = add_program(first, "secret/libchain.so");
  test::image_of(first).mappings.at(1).own_path = std::make_shared<std::string>("/mine/libb.so");
  add_samples(first, chain(program), 3);
  ProcessSnapshot& second = add_process("two", {.tgid = 77, .exec_id = 1, .start_ns = 5});
  test::image_of(second).executable = program.file()->key;
  test::image_of(second).mappings.emplace(1, program.mapping());
  test::image_of(second).mappings.at(1).own_path = std::make_shared<std::string>("unnamed-file");
  add_samples(second, chain(program), 3);
  write();
  EXPECT_THAT(objects(), UnorderedElementsAre(MatchesRegex("libb\\.so-[0-9a-f-]+\\.so"),
                                              MatchesRegex("unnamed-file-[0-9a-f-]+\\.so")));
  for (const char* name : {"one.4321.prof", "two.77.prof"}) expect_both_readers(name, kChainRows);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path(""))) {
    if (!entry.is_regular_file() || entry.path().filename() == kNamedProfile) continue;
    EXPECT_THAT(test::read_file(entry.path()), Not(HasSubstr("secret"))) << entry.path();
  }
  const auto named = decode_pprof(test::read_file(path(kNamedProfile)));
  ASSERT_TRUE(named.has_value());
  std::set<std::string> texts;
  for (std::uint32_t i = 0; i < named->text_count(); ++i) texts.emplace(named->text(i));
  EXPECT_THAT(texts, AllOf(Contains("leaf"), Contains("/mine/libb.so"), Contains("unnamed-file"),
                           Not(Contains(HasSubstr("secret")))));
}

// A path that leads to the file needs no image, also where another process mapped it first.
TEST_F(SessionWriterTest, AProcessWhoseOwnPathLeadsToTheFileShowsThat) {
  ProcessSnapshot& process = add_process("chain");
  const ChainProgram program = add_program(process, "libchain.so");
  const std::filesystem::path link = scratch_.path() / "liblink.so";
  std::filesystem::create_hard_link(scratch_.path() / "libchain.so", link);
  test::image_of(process).mappings.at(1).own_path = std::make_shared<std::string>(link);
  add_samples(process, chain(program), 3);
  write();
  EXPECT_EQ(profile("chain.4321.prof").mappings.at(0).path, link);
  EXPECT_THAT(objects(), ElementsAre());
}

// A mapping whose open failed has an object of its own. Another process's may be opened since.
TEST_F(SessionWriterTest, AFileHasThePathOfEachProcessWhoeverOpenedIt) {
  std::filesystem::create_directory(scratch_.path() / "secret");
  ProcessSnapshot& first = add_process("one");
  const ChainProgram program = add_program(first, "secret/libchain.so");
  add_samples(first, chain(program), 3);
  ProcessSnapshot& second = add_process("two", {.tgid = 77, .exec_id = 1, .start_ns = 5});
  ProcessMapping mapping = program.mapping();
  mapping.file = std::make_shared<const MappedFile>(
      MappedFile{.key = program.file()->key, .path = "/mine/libchain.so"});
  test::image_of(second).mappings.emplace(1, mapping);
  add_samples(second, chain(program), 3);
  write();
  EXPECT_THAT(test::read_file(path("two.77.prof")), Not(HasSubstr("secret")));
  const auto named = decode_pprof(test::read_file(path(kNamedProfile)));
  ASSERT_TRUE(named.has_value());
  std::map<std::int64_t, std::set<std::string>> files;  // by pid
  for (const PprofSample& sample : named->samples()) {
    const auto labels = named->labels(sample.labels);
    const auto pid = std::ranges::find_if(
        labels, [&](const PprofLabel& label) { return named->text(label.key) == "pid"; });
    ASSERT_NE(pid, labels.end());
    for (const std::uint32_t location : named->stack(sample.stack)) {
      const PprofMapping& at = named->mappings()[named->locations()[location].mapping];
      files[pid->number].emplace(named->text(at.file));
    }
  }
  const std::string whole = scratch_.path() / "secret/libchain.so";
  EXPECT_THAT(files, ElementsAre(Pair(77, ElementsAre("/mine/libchain.so")),
                                 Pair(4321, ElementsAre(whole))));
}

// MappedFiles leaves a file so when too many descriptors are open.
MappedFile without_descriptor(const std::string& path) {
  struct stat status {};
  EXPECT_EQ(::stat(path.c_str(), &status), 0);
  MappedFile file{.key = test::open_mapped(path)->key, .path = path};
  file.stat_device = status.st_dev;
  file.stat_inode = status.st_ino;
  file.stat_ctime_ns = file.key.ctime_ns;
  return file;
}

TEST_F(SessionWriterTest, NamesAFileWithoutADescriptorByItsPathWhileItIsUnchanged) {
  const std::string path = scratch_.write("libx.so", "1");
  ProcessMapping mapping;
  mapping.kind = PROFD_MAPPING_FILE;
  mapping.file = std::make_shared<const MappedFile>(without_descriptor(path));
  EXPECT_EQ(ObjectImages(naming_->parser(), "6.1").find_or_add(mapping, false, 0).line_path(),
            path);
  MappedFile deleted = without_descriptor(path);
  deleted.deleted = true;
  mapping.file = std::make_shared<const MappedFile>(std::move(deleted));
  EXPECT_EQ(ObjectImages(naming_->parser(), "6.1").find_or_add(mapping, false, 0).line_path(),
            "[libx.so]");
  mapping.file = std::make_shared<const MappedFile>(without_descriptor(path));
  std::filesystem::rename(scratch_.write("other", "2"), path);
  EXPECT_EQ(ObjectImages(naming_->parser(), "6.1").find_or_add(mapping, false, 0).line_path(),
            "[libx.so]");
}

TEST_F(SessionWriterTest, NamesTheFunctionsOfAReplacedFileByAnImage) {
  ProcessSnapshot& process = add_process("chain");
  const ChainProgram program = add_program(process, "chain");
  std::filesystem::remove(scratch_.path() / "chain");
  std::filesystem::copy_file("/bin/true", scratch_.path() / "chain");
  add_samples(process, chain(program), 3);
  write();
  EXPECT_EQ(objects().size(), 1U);
  expect_both_readers("chain.4321.prof", kChainRows);
}

TEST_F(SessionWriterTest, NamesTheFunctionsOfAPathWithBlanksByAnImage) {
  ProcessSnapshot& process = add_process("chain");
  const ChainProgram program = add_program(process, "my chain");
  add_samples(process, chain(program), 3);
  write();
  EXPECT_THAT(objects(), ElementsAre(MatchesRegex("my_chain-[0-9a-f]+-[0-9a-f]+\\.so")));
  expect_both_readers("chain.4321.prof", kChainRows);
}

TEST_F(SessionWriterTest, DoesNotTrustBytesThatWereWrittenAfterTheSample) {
  ProcessSnapshot& process = add_process("chain");
  const ChainProgram program = add_program(process, "chain");
  const timespec times[] = {{.tv_sec = 0, .tv_nsec = UTIME_OMIT},
                            {.tv_sec = 4'000'000'000, .tv_nsec = 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, (scratch_.path() / "chain").c_str(), times, 0), 0);
  add_samples(process, chain(program), 3);
  write();
  EXPECT_THAT(objects(), ElementsAre());
  EXPECT_EQ(profile("chain.4321.prof").mappings.at(0).path, "[chain]");
}

TEST_F(SessionWriterTest, SkipsAFileThatIsNoElfFile) {
  const std::string text = scratch_.write("script with blanks", "#!/bin/sh\n");
  ProcessSnapshot& process = add_process("script");
  const auto file = test::open_mapped(text);
  test::image_of(process).mappings.emplace(1, ProcessMapping{.start = 0x1000,
                                                             .end = 0x2000,
                                                             .file_offset = 0,
                                                             .time_ns = 1,
                                                             .kind = PROFD_MAPPING_FILE,
                                                             .file_key = file->key,
                                                             .file = file});
  add_samples(process, SyntheticSample(kProgram).leaf(0x1010, 1), 3);
  const SessionSummary summary = write();
  EXPECT_EQ(summary.profiles.at(0).samples, 3U);
  EXPECT_EQ(profile("script.4321.prof").mappings.at(0).path, "[script_with_blanks]");
}

TEST_F(SessionWriterTest, NamesBothObjectsThatHadOneAddress) {
  ProcessSnapshot& process = add_process("chain");
  const ChainProgram program = add_program(process, "libchain.so");
  std::filesystem::copy_file(CHAIN_PROGRAM, scratch_.path() / "libother.so");
  const ChainProgram other(scratch_.path() / "libother.so", kBase);
  test::image_of(process).mappings.emplace(2, other.mapping(2));
  add_samples(process, SyntheticSample(kProgram).leaf(program.address("leaf"), 1), 3);
  add_samples(process, SyntheticSample(kProgram).leaf(other.address("middle"), 2), 2);
  write();
  expect_both_readers("chain.4321.prof", {{"leaf", {3, 3}}, {"middle", {2, 2}}});
}

TEST_F(SessionWriterTest, NamesKernelFunctionsAsKallsymsDoes) {
  const std::string line = test::output_of("grep -m1 ' T vfs_read$' /proc/kallsyms");
  const std::uint64_t vfs_read = std::stoull(line, nullptr, 16);
  ASSERT_NE(vfs_read, 0U) << "kernel.kptr_restrict hides the symbols";
  ProcessSnapshot& process = add_process("reader");
  add_samples(process,
              SyntheticSample(kProgram).kernel(vfs_read + 4).context(PROFD_CONTEXT_KTHREAD), 3);
  const SessionSummary summary = write();
  EXPECT_EQ(summary.profiles.at(0).kernel_only_samples, 3U);
  expect_both_readers("reader.4321.prof", {{"vfs_read", {3, 3}}});
}

TEST_F(SessionWriterTest, WritesTheVdsoAsAnImage) {
  ProcessSnapshot& process = add_process("clock");
  test::image_of(process).mappings.emplace(1, ProcessMapping{.start = 0x7fff00000000,
                                                             .end = 0x7fff00002000,
                                                             .file_offset = 0,
                                                             .time_ns = 1,
                                                             .kind = PROFD_MAPPING_VDSO,
                                                             .file_key = {},
                                                             .file = nullptr});
  add_samples(process, SyntheticSample(kProgram).leaf(0x7fff00000800, 1));
  write();
  EXPECT_THAT(objects(), ElementsAre(MatchesRegex("vdso-.*\\.so")));
}

}  // namespace
}  // namespace profd
