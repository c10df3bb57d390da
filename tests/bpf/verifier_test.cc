// The verifier accepts the programs, far below its limit of a million instructions.

#include <bpf/bpf.h>

#include <iostream>

#include <gtest/gtest.h>

#include "collectors/bpf/programs.h"

namespace profd::test {
namespace {

constexpr std::uint32_t kMaxVerifiedInstructions = 300'000;

class VerifierTest : public testing::TestWithParam<const char*> {};

TEST_P(VerifierTest, VerifiesInFewInstructions) {
  const auto programs = Programs::load(Programs::built_in(), 4096);
  ASSERT_TRUE(programs) << programs.error().message;
  const auto fd = programs->program(GetParam());
  ASSERT_TRUE(fd) << fd.error().message;
  bpf_prog_info info{};
  std::uint32_t bytes = sizeof(info);
  ASSERT_EQ(bpf_obj_get_info_by_fd(*fd, &info, &bytes), 0);
  std::cout << GetParam() << ": " << info.verified_insns << " instructions verified\n";
  EXPECT_GT(info.verified_insns, 0U);
  EXPECT_LT(info.verified_insns, kMaxVerifiedInstructions);
}

INSTANTIATE_TEST_SUITE_P(Programs, VerifierTest,
                         testing::Values("profd_tick", "profd_fork", "profd_exit", "profd_free",
                                         "profd_tasks", "profd_running"),
                         [](const auto& program) { return std::string(program.param); });

// Which of the two ways is used depends on the kernel.
TEST(ProgramsTest, TheProgramsOfOneWayToWatchUnmapsAreLoaded) {
  const auto programs = Programs::load(Programs::built_in(), 4096);
  ASSERT_TRUE(programs) << programs.error().message;
  const bool by_calls = programs->program("profd_munmap_call").has_value();
  EXPECT_EQ(programs->program("profd_mmap_call").has_value(), by_calls);
  EXPECT_EQ(programs->program("profd_mmap_lock").has_value(), !by_calls);
  std::cout << (by_calls ? "by the calls" : "by the address space's lock") << "\n";
}

TEST(ProgramsTest, BytesThatAreNotAnObjectAreAnError) {
  const std::string text = "this is no ELF file";
  const auto programs = Programs::load(std::as_bytes(std::span(text)), 4096);
  EXPECT_FALSE(programs);
}

}  // namespace
}  // namespace profd::test
