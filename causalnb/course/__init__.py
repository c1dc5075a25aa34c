"""The course as products: copies for students and tutors, slides and a site, all from the same notebooks."""
