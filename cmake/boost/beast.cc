// Beast's definitions. Everywhere else only its declarations are compiled.

#include <boost/beast/src.hpp>
