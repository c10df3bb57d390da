#include "daemon/history/object_store.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>

#include "daemon/history/kernel_object.h"
#include "formats/profile/profile.h"
#include "tests/daemon/local_parser.h"
#include "tests/daemon/profiles/chain_program.h"
#include "tests/formats/readers.h"

namespace profd {
namespace {

namespace fs = std::filesystem;
using test::ChainProgram;
using testing::Contains;
using testing::HasSubstr;
using testing::Key;
using testing::Not;
using testing::StartsWith;

constexpr std::uint64_t kBase = 0x10000000;

// Counts the calls that a window without new functions must not make.
class CountingParser final : public test::LocalParser {
 public:
  Result<ElfSummary> read_elf_summary(int fd) override {
    ++calls;
    return LocalParser::read_elf_summary(fd);
  }
  Result<std::vector<ElfSymbol>> find_elf_symbols(int fd, std::span<const std::uint64_t> addresses,
                                                  SymbolBudget& budget) override {
    ++calls;
    if (failures > 0) {
      --failures;
      return fail(ErrorCode::kTooLarge, "too many symbols");
    }
    return LocalParser::find_elf_symbols(fd, addresses, budget);
  }
  Result<std::vector<ElfSymbol>> list_elf_functions(int fd) override {
    ++calls;
    return LocalParser::list_elf_functions(fd);
  }

  int calls = 0;
  int failures = 0;  // number of the next look-ups that fail
};

class ObjectStoreTest : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directory(directory());
    fs::copy_file(CHAIN_PROGRAM, program());
  }
  fs::path directory() const { return scratch_.path() / "objects"; }
  fs::path program() const { return scratch_.path() / "chain"; }

  // As one window does it.
  std::string hit(ObjectStore& store, const ChainProgram& chain, const std::string& function,
                  std::uint64_t offset = 0) {
    const ObjectStore::Original* original = store.find_or_read(*chain.file());
    if (original == nullptr) throw std::runtime_error("not known");
    const ProfiledObject::Image image{.fd = chain.file()->fd.get(),
                                      .elf = original->elf,
                                      .path = chain.file()->path,
                                      .hit_addresses = {chain.address(function, offset) - kBase}};
    EXPECT_GT(store.update(original->name, image, symbols_).value(), 0U);
    return original->name;
  }
  std::map<std::string, std::uint64_t> functions(const std::string& name) const {
    return test::nm_functions(directory() / name);
  }

  test::ScratchDirectory scratch_;
  CountingParser parser_;
  SymbolBudgets symbols_;
};

TEST_F(ObjectStoreTest, AnImageHasTheFunctionsOfAllWindows) {
  ObjectStore store(directory(), parser_);
  const ChainProgram chain(program(), kBase);
  const std::string name = hit(store, chain, "leaf");
  EXPECT_THAT(name, StartsWith("chain-"));
  EXPECT_THAT(functions(name), Contains(Key("leaf")));
  EXPECT_THAT(functions(name), Not(Contains(Key("_start"))));
  EXPECT_EQ(hit(store, chain, "_start"), name);
  EXPECT_THAT(functions(name), Contains(Key("leaf")));
  EXPECT_THAT(functions(name), Contains(Key("_start")));
  const auto original = test::nm_functions(CHAIN_PROGRAM);
  EXPECT_EQ(functions(name).at("leaf"), original.at("leaf"));
  EXPECT_EQ(functions(name).at("_start"), original.at("_start"));
}

TEST_F(ObjectStoreTest, AWindowWithoutNewFunctionsParsesNothing) {
  ObjectStore store(directory(), parser_);
  const ChainProgram chain(program(), kBase);
  hit(store, chain, "leaf");
  parser_.calls = 0;
  hit(store, chain, "leaf", 1);
  EXPECT_EQ(parser_.calls, 0);
}

TEST_F(ObjectStoreTest, AClearedCacheIsReadBackFromTheImage) {
  const ChainProgram chain(program(), kBase);
  std::string name;
  {
    ObjectStore store(directory(), parser_);
    name = hit(store, chain, "leaf");
  }
  ObjectStore store(directory(), parser_);
  EXPECT_EQ(hit(store, chain, "_start"), name);
  EXPECT_THAT(functions(name), Contains(Key("leaf")));
  EXPECT_THAT(functions(name), Contains(Key("_start")));
}

TEST_F(ObjectStoreTest, AMalformedImageIsReplaced) {
  const ChainProgram chain(program(), kBase);
  std::string name;
  {
    ObjectStore store(directory(), parser_);
    name = hit(store, chain, "leaf");
  }
  std::ofstream(directory() / name, std::ios::trunc) << "malformed";
  ObjectStore store(directory(), parser_);
  EXPECT_EQ(hit(store, chain, "_start"), name);
  EXPECT_THAT(functions(name), Contains(Key("_start")));
}

TEST_F(ObjectStoreTest, ACopyOfAFileSharesItsImage) {
  ObjectStore store(directory(), parser_);
  const std::string name = hit(store, ChainProgram(program(), kBase), "leaf");
  fs::create_directory(scratch_.path() / "upgraded");
  fs::copy_file(CHAIN_PROGRAM, scratch_.path() / "upgraded" / "chain");
  EXPECT_EQ(hit(store, ChainProgram(scratch_.path() / "upgraded" / "chain", kBase), "_start"),
            name);
}

TEST_F(ObjectStoreTest, AFailedLookUpOfSymbolsIsRepeated) {
  ObjectStore store(directory(), parser_);
  const ChainProgram chain(program(), kBase);
  parser_.failures = 1;
  const std::string name = hit(store, chain, "leaf");
  EXPECT_THAT(functions(name), Not(Contains(Key("leaf"))));
  hit(store, chain, "leaf");
  EXPECT_THAT(functions(name), Contains(Key("leaf")));
}

TEST_F(ObjectStoreTest, RepeatedFailedLookUpsOfAFileEnd) {
  ObjectStore store(directory(), parser_);
  const ChainProgram chain(program(), kBase);
  parser_.failures = 1000;
  for (int window = 0; window < 20; ++window) hit(store, chain, "leaf");
  EXPECT_EQ(parser_.failures, 995) << "the store must look five times";
}

TEST_F(ObjectStoreTest, GapsBetweenFunctionsHaveTheFilesName) {
  ObjectStore store(directory(), parser_);
  const std::string name = hit(store, ChainProgram(program(), kBase), "leaf");
  EXPECT_THAT(functions(name), Contains(Key("[chain]")));
}

TEST_F(ObjectStoreTest, AnotherOwnersFileOfTheSameBuildIdHasItsOwnImage) {
  ObjectStore store(directory(), parser_);
  const ChainProgram chain(program(), kBase);
  const std::string name = hit(store, chain, "leaf");
  ChainProgram other(program(), kBase);
  MappedFile file{.key = other.file()->key, .path = other.file()->path};
  file.key.inode += 1;
  file.fd.reset(::dup(other.file()->fd.get()));
  file.owner = 1000;
  const ObjectStore::Original* original = store.find_or_read(file);
  ASSERT_NE(original, nullptr);
  EXPECT_NE(original->name, name);
  EXPECT_THAT(original->name, HasSubstr("-u1000.so"));
}

TEST_F(ObjectStoreTest, AFileThatChangedSinceItRanIsNotKnown) {
  ObjectStore store(directory(), parser_);
  const ChainProgram chain(program(), kBase);
  std::ofstream(program(), std::ios::app) << "more";
  EXPECT_EQ(store.find_or_read(*chain.file()), nullptr);
}

TEST_F(ObjectStoreTest, AFileThatIsNoElfIsNotKnown) {
  ObjectStore store(directory(), parser_);
  EXPECT_EQ(store.find_or_read(*test::open_mapped(scratch_.write("text", "no program"))), nullptr);
}

TEST_F(ObjectStoreTest, AFailedWriteLeavesTheOldImage) {
  ObjectStore store(directory(), parser_);
  const ChainProgram chain(program(), kBase);
  const std::string name = hit(store, chain, "leaf");
  fs::create_directory(directory() / ("." + name));  // in the way of the temporary file
  const ProfiledObject::Image image{.fd = chain.file()->fd.get(),
                                    .elf = store.find_or_read(*chain.file())->elf,
                                    .hit_addresses = {chain.address("_start") - kBase}};
  EXPECT_FALSE(store.update(name, image, symbols_));
  EXPECT_THAT(functions(name), Contains(Key("leaf")));
  fs::remove(directory() / ("." + name));
  EXPECT_TRUE(store.update(name, image, symbols_));
  EXPECT_THAT(functions(name), Contains(Key("_start")));
}

// The functions of the kernel's own text in /proc/kallsyms.
std::map<std::string, std::uint64_t> kernel_text() {
  std::map<std::string, std::uint64_t> found;
  std::ifstream lines("/proc/kallsyms");
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string address, type, name;
    fields >> address >> type >> name;
    if (type == "T") found.emplace(name, std::stoull(address, nullptr, 16));
  }
  return found;
}

class KernelObjectTest : public ObjectStoreTest {
 protected:
  // Where the image has a function, as an address of the kernel.
  std::uint64_t address_in_image(const KernelObject& kernel, const std::string& name) {
    const auto found = functions(kernel.name());
    return found.contains(name) ? unfold_kernel_address(found.at(name)) : 0;
  }
  std::map<std::string, std::uint64_t> text_ = kernel_text();
};

TEST_F(KernelObjectTest, GrowsByHitFunctionsWithoutMovingItsMapping) {
  ObjectStore store(directory(), parser_);
  KernelObject kernel(store);
  const ProfileMapping before = kernel.image_for({text_.at("vfs_read") + 4}).mapping();
  ASSERT_TRUE(kernel.write());
  EXPECT_EQ(before.path, directory() / kernel.name());
  EXPECT_EQ(address_in_image(kernel, "vfs_read"), text_.at("vfs_read"));
  const ProfileMapping after = kernel.image_for({text_.at("vfs_write") + 4}).mapping();
  ASSERT_TRUE(kernel.write());
  EXPECT_EQ(before, after);
  EXPECT_EQ(address_in_image(kernel, "vfs_read"), text_.at("vfs_read"));
  EXPECT_EQ(address_in_image(kernel, "vfs_write"), text_.at("vfs_write"));
}

TEST_F(KernelObjectTest, ContinuesTheImageOfTheSameBoot) {
  ObjectStore store(directory(), parser_);
  {
    KernelObject kernel(store);
    (void)kernel.image_for({text_.at("vfs_read") + 4});
    ASSERT_TRUE(kernel.write());
  }
  KernelObject kernel(store);
  (void)kernel.image_for({text_.at("vfs_write") + 4});
  ASSERT_TRUE(kernel.write());
  EXPECT_EQ(address_in_image(kernel, "vfs_read"), text_.at("vfs_read"));
  EXPECT_EQ(address_in_image(kernel, "vfs_write"), text_.at("vfs_write"));
}

TEST_F(KernelObjectTest, HidesTheKernelIfNoFunctionIsKnown) {
  ObjectStore store(directory(), parser_);
  KernelObject kernel(store);
  (void)kernel.image_for({1});
  ASSERT_TRUE(kernel.write());
  EXPECT_THAT(functions(kernel.name()), Contains(Key("[kernel]")));
}

}  // namespace
}  // namespace profd
