/* crt1.o for programs: before glibc 2.34 the C library does not run a program's constructors, it calls a function
   that does. Kernels are shared libraries and never link this; compiler checks and tests do. */

typedef void initializer(int, char **, char **);

extern initializer *__init_array_start[] __attribute__((visibility("hidden")));
extern initializer *__init_array_end[] __attribute__((visibility("hidden")));

__attribute__((used)) static void run_initializers(int argc, char **argv, char **envp) {
  for (initializer **each = __init_array_start; each != __init_array_end; ++each) (*each)(argc, argv, envp);
}

/* The kernel enters here: argc at the top of the stack, argv above it, in rdx what to call at exit. */
__asm__(
    ".globl _start\n"
    ".type _start, @function\n"
    "_start:\n"
    "  xor %ebp, %ebp\n"
    "  mov %rdx, %r9\n"
    "  pop %rsi\n"
    "  mov %rsp, %rdx\n"
    "  and $-16, %rsp\n"
    "  push %rax\n"
    "  push %rsp\n"
    "  xor %r8d, %r8d\n"
    "  lea run_initializers(%rip), %rcx\n"
    "  mov main@GOTPCREL(%rip), %rdi\n"
    "  call *__libc_start_main@GOTPCREL(%rip)\n"
    "  hlt\n");
