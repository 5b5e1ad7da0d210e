"""Text that addresses the model: judged where it is stored, made harmless where it is shown. Pure, no model."""
