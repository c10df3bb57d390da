// Programs are checked, and files of others read, in a child process, which is the running program
// again.

#include <gmock/gmock.h>

#include "collectors/sandbox/child.h"
#include "ctl/doctor/program_child.h"
#include "ctl/sources/file_reader.h"

int main(int argc, char** argv) {
  profd::sandbox::run_as_child(argc, argv, {profd::kProgramCheckChild, profd::kSourceReaderChild});
  testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
