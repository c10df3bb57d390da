// Boost.JSON's definitions. Everywhere else only its declarations are compiled.

#include <boost/json/src.hpp>
