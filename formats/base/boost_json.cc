// Boost.JSON's definitions, compiled once: the library is used header-only.

#include <boost/json/src.hpp>
