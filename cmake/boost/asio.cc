// Asio's definitions. Everywhere else only its declarations are compiled.

#include <boost/asio/impl/src.hpp>
