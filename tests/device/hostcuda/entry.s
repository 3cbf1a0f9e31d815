# A function of NVIDIA's libraries: it goes on in its slot, which Python fills; what is not there says its name.
# build.py writes a line for each one. A counted ENTRY counts, and does nothing while nothing is executed.

.macro ENTRY name, counted, counter=0, executed=0
.data
.globl slot_\name
slot_\name:
.Lslot_\name: .quad missing_\name
.text
.globl \name
.type \name, @function
\name:
.if \counted
  movq hc_state@GOTPCREL(%rip), %rax
  incq \counter(%rax)
  cmpq $0, \executed(%rax)
  je nothing
.endif
  movq .Lslot_\name(%rip), %rax
  jmp *%rax
missing_\name:
  leaq name_of_\name(%rip), %rdi
  jmp hc_missing@PLT
.section .rodata
name_of_\name: .string "\name"
.endm

.macro NOTHING name
.text
.globl \name
.type \name, @function
\name:
  jmp nothing
.endm

.text
nothing:
  xorl %eax, %eax
  ret
.section .note.GNU-stack, "", @progbits

