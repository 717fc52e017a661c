"""Random graphs of all that ONNX's schemas allow, compared with what others make of them.

A graph is told by its seed. Operators, types and attributes are drawn from the schemas (`draft`);
rules say what schemas cannot (`rules`). ONNX Runtime without optimisations or onnx's reference
evaluator say what each node means, and how far others may be off (`reference`); what the table of
differences has is not drawn. Cases then run through the evaluator and as C (`runs`), many in a
process of their own (`session`), and what differs is made small (`shrink`).
"""
