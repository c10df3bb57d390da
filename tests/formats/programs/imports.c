// A library that calls what others define: through a PLT, and through one whose slot is bound.

int imported(int x);
int imported_too(int x);
int with_address(int x);

int (*volatile address)(int) = with_address;

int calls(int x) { return imported(x) + imported_too(x) + with_address(x) + 1; }
