// The main() of test programs that start a parser: the parser is the running program again.

#include <gtest/gtest.h>

#include "collectors/parser/parser.h"

int main(int argc, char** argv) {
  if (profd::is_parser_call(argc, argv)) return profd::run_parser();
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
