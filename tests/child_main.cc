// The main() of test programs that start sandboxed children: a child is the running program again.

#include <gtest/gtest.h>

#include "collectors/door/app_door.h"
#include "collectors/door/closer.h"
#include "collectors/door/door.h"
#include "collectors/parser/parser.h"
#include "collectors/sandbox/child.h"
#include "collectors/symbolizer/symbolizer.h"
#include "collectors/xray/follower.h"

int main(int argc, char** argv) {
  profd::sandbox::run_as_child(
      argc, argv,
      {profd::kParserChild, profd::kUserParserChild, profd::kSymbolizerChild,
       profd::kUserSymbolizerChild, profd::xray::kFollowerChild, profd::door::kDoorChild,
       profd::door::kAppDoorChild, profd::door::kCloserChild});
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
